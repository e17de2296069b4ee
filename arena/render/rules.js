// The rules of a match in a browser: the twin of arena/rules.py, random draws included. Match k of seed s is the same
// match in both; tests compare them.
//
// A match is {key, turn, snakes, directions, beans, over}. A cell is row * 20 + column; snakes are lists of cells, head
// first; moves and directions are 0 up, 1 down, 2 left, 3 right, and the opposite of d is d ^ 1. No function changes its
// argument.
"use strict";

const rules = (() => {
  const ROWS = 10, COLUMNS = 20, CELLS = 200, SNAKES = 6, TEAM = 3, BEANS = 5, START_LENGTH = 3, TURNS = 200;
  const LENGTH_MAX = CELLS - BEANS; // five beans and all bodies must fit on the board
  const UP = 0, DOWN = 1, LEFT = 2, RIGHT = 3;

  // --- draws: pure functions of key, turn and slot (arena/rng.py)

  const GOLDEN = 0x9e3779b9, WORD = 2 ** 32;
  const SLOT_REVERSAL = 0, SLOT_START = 16, SLOT_BEAN = 32, RETRY = 1 << 8, UNBIAS = 1 << 20;

  function mix32(x) {
    x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
    x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
    return (x ^ (x >>> 16)) >>> 0;
  }

  // The key of match `number` of `seed` as two 32-bit words, the higher one first. Both may be texts: BigInt reads numbers
  // that are too large for JavaScript.
  function matchKey(seed, number) {
    const words = [seed, number].flatMap((n) => [BigInt(n) & 0xffffffffn, (BigInt(n) >> 32n) & 0xffffffffn]).map(Number);
    let high = GOLDEN, low = WORD - 1 - GOLDEN;
    for (const word of words) {
      high = mix32((high ^ word) + GOLDEN);
      low = mix32((low ^ word) + 1);
    }
    return [high & 0x7fffffff, low];
  }

  function draw([high, low], turn, slot) {
    let x = mix32(low ^ Math.imul(turn, GOLDEN));
    x = mix32((x ^ high) + GOLDEN);
    return mix32((x ^ slot) + GOLDEN);
  }

  // Uniform in 0 .. bound - 1. The product is far below 2 ** 53, so it is exact.
  function drawBelow(key, turn, slot, bound) {
    const tipping = WORD % bound;
    let product = draw(key, turn, slot) * bound;
    while (product % WORD < tipping) {
      slot += UNBIAS;
      product = draw(key, turn, slot) * bound;
    }
    return Math.floor(product / WORD);
  }

  // --- the board

  function neighbour(cell, direction) {
    const row = Math.floor(cell / COLUMNS), column = cell % COLUMNS, step = 2 * (direction & 1) - 1;
    if (direction < LEFT) return ((row + step + ROWS) % ROWS) * COLUMNS + column;
    return row * COLUMNS + ((column + step + COLUMNS) % COLUMNS);
  }

  // The number of segments and beans on every cell.
  function occupied(snakes, beans) {
    const board = new Uint8Array(CELLS);
    for (const body of snakes) for (const cell of body) board[cell]++;
    for (const bean of beans) board[bean]++;
    return board;
  }

  function start(seed, number = 0) {
    const key = matchKey(seed, number), board = new Uint8Array(CELLS), snakes = [], directions = [];
    for (let snake = 0; snake < SNAKES; snake++)
      for (let slot = SLOT_START + snake; !snakes[snake]; slot += RETRY) {
        const drawn = drawBelow(key, 0, slot, 4 * CELLS);
        const direction = Math.floor(drawn / CELLS), tail = drawn % CELLS;
        const middle = neighbour(tail, direction), head = neighbour(middle, direction);
        if (board[tail] || board[middle] || board[head]) continue;
        snakes[snake] = [head, middle, tail];
        directions[snake] = direction;
        for (const cell of snakes[snake]) board[cell] = 1;
      }
    return { key, turn: 0, snakes, directions, beans: withNewBeans(key, 0, snakes, []), over: false };
  }

  // One turn of all six snakes: {match, taken, ate, died, reward}. `taken` are the moves after reversals were replaced by
  // random moves.
  function playTurn(match, moves) {
    const nobody = () => Array(SNAKES).fill(false);
    if (match.over) return { match, taken: match.directions, ate: nobody(), died: nobody(), reward: Array(SNAKES).fill(0) };
    const { key } = match, turn = match.turn + 1, ate = nobody(), taken = [];
    let beans = match.beans;
    const snakes = match.snakes.map((body, snake) => {
      let move = moves[snake];
      if (move === (match.directions[snake] ^ 1)) {
        const pick = drawBelow(key, turn, SLOT_REVERSAL + snake, 3);
        move = pick < move ? pick : pick + 1;
      }
      taken.push(move);
      const head = neighbour(body[0], move);
      ate[snake] = beans.includes(head); // gone at once: a snake of higher index that enters the same cell finds no bean
      if (ate[snake]) beans = beans.filter((bean) => bean !== head);
      return [head, ...(ate[snake] ? body : body.slice(0, -1))];
    });

    // A snake dies if its head shares a cell with any other segment. Bodies of dying snakes still count.
    const segments = occupied(snakes, []), directions = [...taken];
    const died = snakes.map((body) => segments[body[0]] > 1);
    const reward = snakes.map((body, snake) => (died[snake] ? START_LENGTH - (body.length - ate[snake]) : Number(ate[snake])));
    for (let snake = 0; snake < SNAKES; snake++) if (died[snake]) snakes[snake] = [];
    for (let snake = 0; snake < SNAKES; snake++) {
      if (!died[snake]) continue;
      const found = respawned(occupied(snakes, beans));
      if (found) [snakes[snake], directions[snake]] = found;
    }
    beans = withNewBeans(key, turn, snakes, beans);
    const total = snakes.reduce((sum, body) => sum + body.length, 0);
    const over = turn >= TURNS || total > LENGTH_MAX || snakes.some((body) => !body.length);
    return { match: { key, turn, snakes, directions, beans, over }, taken, ate, died, reward };
  }

  // Body and direction of a respawned snake: the first room of three cells, searched from the top left; null if there is
  // none. As in the competition, the body may have a gap, and its direction ignores the torus.
  function respawned(board) {
    const freeNeighbour = (cell, other) => {
      for (const direction of [RIGHT, DOWN, UP, LEFT]) {
        const beside = neighbour(cell, direction);
        if (beside !== other && !board[beside]) return beside;
      }
      return -1;
    };
    const row = (cell) => Math.floor(cell / COLUMNS), column = (cell) => cell % COLUMNS;
    for (let first = 0; first < CELLS; first++) {
      if (board[first]) continue;
      const second = freeNeighbour(first, -1);
      if (second < 0) continue;
      let third = freeNeighbour(first, second);
      if (third < 0) third = freeNeighbour(second, first);
      if (third < 0) continue;
      const corner = (row(first) === row(second) && column(first) === column(third))
        || (row(first) === row(third) && column(first) === column(second));
      const [head, neck] = corner ? [second, first] : [first, second]; // in an L the head is the end of an arm
      if (row(head) === row(neck)) return [[head, neck, third], head > neck ? RIGHT : LEFT];
      return [[head, neck, third], head > neck ? DOWN : UP];
    }
    return null;
  }

  // The beans, refilled to five on random free cells; fewer if the board is full.
  function withNewBeans(key, turn, snakes, beans) {
    const board = occupied(snakes, beans), all = [...beans];
    for (let missing = 0; all.length < BEANS; missing++) {
      const cell = drawFreeCell(key, turn, SLOT_BEAN + missing, board);
      if (cell < 0) break;
      board[cell] = 1;
      all.push(cell);
    }
    return all;
  }

  function drawFreeCell(key, turn, slot, board) {
    for (let attempt = 0; attempt < 32; attempt++) {
      const cell = drawBelow(key, turn, slot + RETRY * attempt, CELLS);
      if (!board[cell]) return cell;
    }
    // A crowded board: draw among the free cells.
    const free = [...board.keys()].filter((cell) => !board[cell]);
    return free.length ? free[drawBelow(key, turn, slot + RETRY * 32, free.length)] : -1;
  }

  // The match dictionary (arena/match_dict.py) that replays and board.js use.
  function dictionary({ turn, snakes, directions, beans }) {
    const place = (cell) => [Math.floor(cell / COLUMNS), cell % COLUMNS];
    return { turn, snakes: snakes.map((body) => body.map(place)), directions, beans: beans.map(place) };
  }

  return { ROWS, COLUMNS, CELLS, SNAKES, TEAM, BEANS, START_LENGTH, TURNS, matchKey, draw, drawBelow, neighbour, start, playTurn, dictionary };
})();
