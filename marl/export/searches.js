// Searches over the next moves: the twin of arena/search.py and arena/dangers.py. Bodies leave their cells as the snakes
// move on: the k-th cell of a body, counted from the tail, can be entered on the k-th move from now. Needs rules.js. Tests
// compare it with Python.
//
// A set of cells is ten 20-bit rows, bit c for column c. All memory is made once: nothing is allocated in a search. Most
// functions are about the position given to read() last.
"use strict";

const searches = (() => {
  const { ROWS, COLUMNS, CELLS, SNAKES, TEAM, neighbour } = rules;
  const MOVES = 4, MOST_MOVES = 14; // directions; the longest search
  const DEPTH = 8, MOST_STEPS = 256; // of a search for a dead end, see arena/dangers.py
  const ROW = (1 << COLUMNS) - 1; // all cells of a row
  const NEIGHBOURS = Uint8Array.from({ length: CELLS * MOVES }, (_, i) => neighbour(i >> 2, i & 3));

  // A set with room for a copy of its first row at the end: the row below the last one.
  const makeSet = () => new Int32Array(ROWS + 1);
  const ROW_OF = Uint8Array.from({ length: CELLS }, (_, cell) => Math.floor(cell / COLUMNS));
  const BIT_OF = Int32Array.from({ length: CELLS }, (_, cell) => 1 << cell % COLUMNS);
  const add = (set, cell) => { set[ROW_OF[cell]] |= BIT_OF[cell]; };
  const has = (set, cell) => (set[ROW_OF[cell]] & BIT_OF[cell]) !== 0;

  // The number of bits in a row.
  function bitsIn(row) {
    row -= (row >> 1) & 0x55555;
    row = (row & 0x33333) + ((row >> 2) & 0x33333);
    row = (row + (row >> 4)) & 0xf0f0f;
    return (row + (row >> 8) + (row >> 16)) & 31;
  }

  function count(set) {
    let cells = 0;
    for (let r = 0; r < ROWS; r++) cells += bitsIn(set[r]);
    return cells;
  }

  // The neighbours, in one row, of the cells in it and in the rows above and below it. Bits beyond the row remain.
  const beside = (above, row, below) =>
    above | below | (row << 1) | (row >> 1) | (row << (COLUMNS - 1)) | (row >> (COLUMNS - 1));

  // --- the position

  const waits = new Uint8Array(CELLS); // turns until the segment on a cell has moved on; 0 without a segment
  const open = new Int32Array((MOST_MOVES + 1) * ROWS); // from move * ROWS on: cells that can be entered on this move
  const beans = makeSet();
  let position = null;

  // Read a position. A match does not change: the same object is read once, for all its snakes.
  function read(match) {
    if (match === position) return;
    position = match;
    const { snakes } = match;
    waits.fill(0);
    beans.fill(0);
    for (const cell of match.beans) add(beans, cell);
    open.fill(ROW, MOST_MOVES * ROWS);
    for (const body of snakes)
      for (let age = 0, wait = body.length; age < body.length; age++, wait--) {
        const cell = body[age];
        waits[cell] = wait;
        if (wait > MOST_MOVES) open[MOST_MOVES * ROWS + ROW_OF[cell]] &= ~BIT_OF[cell];
      }
    for (let move = MOST_MOVES - 1, at = move * ROWS; move > 0; move--, at -= ROWS) {
      for (let r = 0; r < ROWS; r++) open[at + r] = open[at + ROWS + r];
      for (const body of snakes)
        if (body.length > move) { // this cell is left one move later
          const cell = body[body.length - 1 - move];
          open[at + ROW_OF[cell]] &= ~BIT_OF[cell];
        }
    }
  }

  // Whether another snake that may eat on this turn has its tail on this cell: then the tail stays.
  function tailMayStay(snake, cell) {
    if (waits[cell] !== 1) return false;
    for (let other = 0; other < SNAKES; other++) {
      const body = position.snakes[other];
      if (other === snake || body[body.length - 1] !== cell) continue;
      for (let move = 0; move < MOVES; move++) if (has(beans, NEIGHBOURS[MOVES * body[0] + move])) return true;
    }
    return false;
  }

  // --- breadth first

  const front = makeSet(), reached = makeSet(), explored = { room: 0, bean: 0, last: 0 };

  // Search from the cell `first`, entered on the first move: the number of cells that can be reached in `moves` moves, the
  // move on which the first bean is reached (0: none), and the last move on which a new cell is reached.
  function explore(first, moves) {
    front.fill(0);
    reached.fill(0);
    add(front, first);
    add(reached, first);
    let bean = has(beans, first) ? 1 : 0, last = 1;
    for (let move = 2, at = 2 * ROWS; move <= moves; move++, at += ROWS) {
      let above = front[ROWS - 1], row = front[0], any = 0, eaten = 0;
      front[ROWS] = row;
      for (let r = 0; r < ROWS; r++) {
        const below = front[r + 1], fresh = beside(above, row, below) & open[at + r] & ~reached[r];
        [above, row] = [row, below];
        front[r] = fresh;
        reached[r] |= fresh;
        any |= fresh;
        eaten |= fresh & beans[r];
      }
      if (!any) break;
      last = move;
      if (!bean && eaten) bean = move;
    }
    explored.room = count(reached);
    explored.bean = bean;
    explored.last = last;
    return explored;
  }

  const own = makeSet(), mates = makeSet(), foes = makeSet(); // cells that each side has entered on the last move
  const claimed = makeSet(), ownCells = makeSet(), foeCells = makeSet(), shares = { own: 0, foes: 0, worth: 0 };

  // Which side reaches which cell first, if this snake enters the cell `first` and all heads then search at once: the
  // number of cells that the snake reaches first, the number that its foes reach first (a cell that both sides reach on
  // the same move belongs to nobody), and the worth of the beans: 240 / (moves + 1) for each bean that the snake's side
  // reaches first, twice that if it is the snake itself, minus the same for beans of the foes.
  function contest(snake, first, moves) {
    for (const set of [own, mates, foes, claimed, ownCells, foeCells]) set.fill(0);
    add(own, first);
    for (let other = 0; other < SNAKES; other++) {
      const body = position.snakes[other], side = other < TEAM === snake < TEAM ? mates : foes;
      if (other === snake || !body.length) continue;
      for (let move = 0; move < MOVES; move++) {
        const cell = NEIGHBOURS[MOVES * body[0] + move];
        if (waits[cell] <= 1 && cell !== first) add(side, cell);
      }
    }
    let worth = 0;
    for (let r = 0; r < ROWS; r++) worth += 120 * share(r, own[r], mates[r], foes[r]);
    for (let move = 2, at = 2 * ROWS; move <= moves; move++, at += ROWS) {
      let ownAbove = own[ROWS - 1], matesAbove = mates[ROWS - 1], foesAbove = foes[ROWS - 1];
      let ownRow = own[0], matesRow = mates[0], foesRow = foes[0], gain = 0;
      [own[ROWS], mates[ROWS], foes[ROWS]] = [ownRow, matesRow, foesRow];
      for (let r = 0; r < ROWS; r++) {
        const ownBelow = own[r + 1], matesBelow = mates[r + 1], foesBelow = foes[r + 1], free = open[at + r] & ~claimed[r];
        const mine = beside(ownAbove, ownRow, ownBelow) & free;
        const ours = beside(matesAbove, matesRow, matesBelow) & free & ~mine;
        gain += share(r, mine, ours, beside(foesAbove, foesRow, foesBelow) & free);
        [ownAbove, matesAbove, foesAbove] = [ownRow, matesRow, foesRow];
        [ownRow, matesRow, foesRow] = [ownBelow, matesBelow, foesBelow];
      }
      worth += gain * Math.floor(240 / (move + 1));
    }
    shares.own = count(ownCells);
    shares.foes = count(foeCells);
    shares.worth = worth;
    return shares;
  }

  // Share out the cells that the sides enter in a row on one move; returns the beans of the snake's side minus those of its
  // foes, its own beans twice.
  function share(r, mine, ours, theirs) {
    const contested = (mine | ours) & theirs, goals = beans[r];
    claimed[r] |= mine | ours | theirs;
    own[r] = mine &= ~contested;
    mates[r] = ours &= ~contested;
    foes[r] = theirs &= ~contested;
    ownCells[r] |= mine;
    foeCells[r] |= theirs;
    if (!((mine | ours | theirs) & goals)) return 0;
    return 2 * bitsIn(mine & goals) + bitsIn(ours & goals) - bitsIn(theirs & goals);
  }

  // --- depth first

  const path = new Uint8Array(DEPTH), tries = new Uint8Array(DEPTH); // cells from the head on; the move to try on each turn

  // Whether a snake that makes this move cannot go on for DEPTH turns while the others stand still. Without a verdict after
  // MOST_STEPS steps the move counts as no dead end.
  function isDeadEnd(snake, move) {
    const { length } = position.snakes[snake];
    path[0] = position.snakes[snake][0];
    tries[0] = move;
    for (let step = 0, turn = 0; step < MOST_STEPS; step++) {
      const tried = tries[turn];
      if (turn === 0 && tried !== move) return true;
      if (tried >= MOVES) { // back to the turn before, and to its next move
        tries[--turn]++;
        continue;
      }
      const cell = NEIGHBOURS[MOVES * path[turn] + tried];
      let blocked = waits[cell] > turn + 1;
      for (let i = Math.max(1, turn + 2 - length); i <= turn && !blocked; i++) blocked = path[i] === cell;
      if (blocked) {
        tries[turn]++;
        continue;
      }
      if (turn === DEPTH - 1) return false;
      path[++turn] = cell;
      tries[turn] = 0;
    }
    return false;
  }

  return { DEPTH, waits, read, tailMayStay, explore, contest, isDeadEnd };
})();
