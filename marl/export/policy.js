// A policy in a browser: the twins of the encoders of arena/encoders, the dense layers, and the choice of a move. Needs
// rules.js and searches.js. Tests compare it with Python.
"use strict";

const { encoders, moveToLocal } = (() => {
  const { ROWS, COLUMNS, CELLS, SNAKES, TEAM, BEANS, TURNS, neighbour } = rules;
  const WAIT_MAX = 8, LEAD_MAX = 15, NO_BEAN = 31, MIRRORED = 4;
  const VECTOR = 80; // numbers of `features` and `canonical`, in the order of arena/encoders/features.py
  const REACH = 6, SIDE = 2 * REACH + 1, WINDOW = SIDE * SIDE; // cells that `egocentric` shows each way, in a row, in all
  const PLANES = 6, EGOCENTRIC = PLANES * WINDOW + 2 + VECTOR;
  const ACTIONS = 4, ACTION_NUMBERS = 8, ROOM_MOVES = 14, CONTEST_MOVES = 10, WORTH_UNIT = 10; // see tactical.py
  const STEPS = [[-1, 0], [1, 0], [0, -1], [0, 1]], ORIENTATIONS = [0, 1, 2, 3, 4, 5, 6, 7];
  const clamp = (v, most) => Math.max(-most, Math.min(most, v));

  // The way from one cell to another is told by the cell at which it ends if it begins at cell 0. Of these cells: rows and
  // columns of the shorter way, and its length.
  const ROW = Uint8Array.from({ length: CELLS }, (_, cell) => Math.floor(cell / COLUMNS));
  const COLUMN = Uint8Array.from({ length: CELLS }, (_, cell) => cell % COLUMNS);
  const DOWN = Int8Array.from(ROW, (rows) => (rows < ROWS / 2 ? rows : rows - ROWS));
  const RIGHT = Int8Array.from(COLUMN, (columns) => (columns < COLUMNS / 2 ? columns : columns - COLUMNS));
  const FAR = Uint8Array.from(DOWN, (rows, cell) => Math.abs(rows) + Math.abs(RIGHT[cell]));

  function way(from, to) {
    const rows = ROW[to] - ROW[from], columns = COLUMN[to] - COLUMN[from];
    return (rows < 0 ? rows + ROWS : rows) * COLUMNS + (columns < 0 ? columns + COLUMNS : columns);
  }

  // The cell at the end of a way.
  const end = (from, by) => ((ROW[from] + ROW[by]) % ROWS) * COLUMNS + ((COLUMN[from] + COLUMN[by]) % COLUMNS);

  // A step on the board in the snake's own coordinates. An orientation is the direction that becomes up, plus 4 if left
  // and right are then swapped.
  const sign = (bit) => 1 - 2 * bit;
  const ahead = (orientation, down, right) => sign(orientation & 1) * (orientation & 2 ? right : down);
  const aside = (orientation, down, right) =>
    sign((orientation & 1) ^ (orientation >> 2)) * (orientation & 2 ? -down : right);

  // A move on the board as a move in the snake's own coordinates.
  const LOCAL_MOVES = ORIENTATIONS.map((orientation) => STEPS.map((step) => STEPS.findIndex(
    ([down, right]) => down === ahead(orientation, ...step) && right === aside(orientation, ...step))));
  const moveToLocal = (orientation, move) => LOCAL_MOVES[orientation][move];

  // For each orientation: the ways of one and two moves, row by row in the snake's own coordinates.
  const AROUND = ORIENTATIONS.map((orientation) => {
    const rowByRow = (by) => 5 * ahead(orientation, DOWN[by], RIGHT[by]) + aside(orientation, DOWN[by], RIGHT[by]);
    return [...FAR.keys()].filter((by) => FAR[by] === 1 || FAR[by] === 2).sort((a, b) => rowByRow(a) - rowByRow(b));
  });

  // For each orientation and way: up to two indices in the window of `egocentric`, which is wider than the board; or -1.
  const PLACES = ORIENTATIONS.map((orientation) => Int16Array.from({ length: 2 * CELLS }, (_, i) => {
    const by = i >> 1, found = [DOWN[by] - ROWS, DOWN[by], DOWN[by] + ROWS]
      .map((down) => [ahead(orientation, down, RIGHT[by]) + REACH, aside(orientation, down, RIGHT[by]) + REACH])
      .filter((place) => place.every((at) => at >= 0 && at < SIDE)).map(([rows, columns]) => rows * SIDE + columns);
    return found[i & 1] ?? -1;
  }));

  // --- `features` and `canonical`

  // Beans and heads are sorted as numbers: the distance, below it the bytes that the vector shows, the first one lowest.
  const WORD = 2 ** 32, BYTE = 256, keys = new Float64Array(BEANS);
  const byteAt = (key, i) => ((i < 4 ? key >>> (8 * i) : key / WORD) << 24) >> 24; // signed

  function sortKeys(count) {
    for (let i = 1; i < count; i++)
      for (let k = i; k > 0 && keys[k - 1] > keys[k]; k--) {
        const key = keys[k];
        keys[k] = keys[k - 1];
        keys[k - 1] = key;
      }
  }

  function writeKeys(out, at, count, bytes) {
    sortKeys(count);
    for (let k = 0; k < count; k++) for (let i = 0; i < bytes; i++) out[at++] = byteAt(keys[k], i);
  }

  // Two bytes: a way in the snake's own coordinates.
  const localWay = (orientation, by) =>
    (ahead(orientation, DOWN[by], RIGHT[by]) & 255) | ((aside(orientation, DOWN[by], RIGHT[by]) & 255) << 8);

  const heads = new Uint8Array(SNAKES);

  // The lowest distance to a bean of the snakes of a team, without that of `snake` itself.
  function nearest(team, snake, bean) {
    let found = CELLS;
    for (let other = team; other < team + TEAM; other++)
      if (other !== snake) found = Math.min(found, FAR[way(heads[other], bean)]);
    return found;
  }

  // Bytes of a bean: the way to it, lead over the nearest foe, lead over the nearest mate.
  function readBeans(beans, snake, orientation) {
    const team = snake < TEAM ? 0 : TEAM;
    for (let i = 0; i < BEANS; i++) {
      let far = NO_BEAN, by = 0, foes = -LEAD_MAX, mates = -LEAD_MAX;
      if (i < beans.length) {
        by = way(heads[snake], beans[i]);
        far = FAR[by];
        foes = nearest(TEAM - team, snake, beans[i]) - far;
        mates = nearest(team, snake, beans[i]) - far;
      }
      keys[i] = far * WORD + ((localWay(orientation, by) | ((foes & 255) << 16) | ((mates & 255) << 24)) >>> 0);
    }
  }

  // Write the vector from index `at` on; returns its orientation. In the orientation of `canonical` the snake looks up and
  // its nearest bean is not on the left.
  function writeVector({ snakes, directions, beans, turn }, snake, isCanonical, out, at) {
    const team = snake < TEAM ? 0 : TEAM, [head] = snakes[snake];
    for (let other = 0; other < SNAKES; other++) heads[other] = snakes[other].length ? snakes[other][0] : head;
    let orientation = isCanonical ? directions[snake] : 0;
    readBeans(beans, snake, orientation);
    if (isCanonical) {
      sortKeys(BEANS);
      if (byteAt(keys[0], 1) < 0) readBeans(beans, snake, (orientation += MIRRORED));
    }
    writeKeys(out, at + 28, BEANS, 4);

    let lead = 0;
    for (const first of [team, TEAM - team]) {
      let count = 0;
      for (let other = first; other < first + TEAM; other++) {
        const { length } = snakes[other], by = way(head, heads[other]);
        const [down, right] = STEPS[moveToLocal(orientation, directions[other])];
        lead += first === team ? length : -length;
        if (other === snake) continue;
        keys[count++] = (FAR[by] * BYTE + (right & 255)) * WORD
          + ((localWay(orientation, by) | (Math.min(127, length) << 16) | ((down & 255) << 24)) >>> 0);
        if (FAR[by] !== 2) continue; // two moves away: it can enter the same cell on this turn
        const rows = ahead(orientation, DOWN[by], RIGHT[by]), columns = aside(orientation, DOWN[by], RIGHT[by]);
        const near = at + (first === team ? 20 : 16);
        if (rows) out[near + (rows < 0 ? 0 : 1)]++;
        if (columns) out[near + (columns < 0 ? 2 : 3)]++;
      }
      writeKeys(out, at + (first === team ? 48 : 58), count, 5);
    }
    AROUND[orientation].forEach((by, i) => { out[at + i] = Math.min(WAIT_MAX, searches.waits[end(head, by)]); });
    out[at + 12 + moveToLocal(orientation, directions[snake])] = 1;
    out[at + 24] = Math.min(127, snakes[snake].length);
    out[at + 25] = (TURNS - turn) >> 1;
    out[at + 26] = clamp(lead, 127);
    out[at + 78] = (orientation >> 1) & 1;
    out[at + 79] = orientation;
    return orientation;
  }

  const writeCanonical = (match, snake, out) => writeVector(match, snake, true, out, 0);

  // --- encoders with a board

  function writePlanes({ snakes, directions, beans, turn }, snake, out) {
    const head = snakes[snake][0], middle = (ROWS / 2) * COLUMNS + COLUMNS / 2, totals = [0, 0];
    const show = (plane, cell, value) => { out[CELLS * plane + end(middle, way(head, cell))] = value; };
    for (let other = 0; other < SNAKES; other++) {
      const body = snakes[other], foe = Number(other < TEAM !== snake < TEAM);
      const plane = other === snake ? 0 : foe ? 2 : 1;
      totals[foe] += body.length;
      body.forEach((cell, age) => show(plane, cell, Math.min(WAIT_MAX, body.length - age)));
      if (body.length && plane) show(plane + 2, body[0], 1);
    }
    for (const bean of beans) show(5, bean, 1);
    out[CELLS * PLANES + directions[snake]] = 1;
    out.set([snakes[snake].length, ...totals, TURNS - turn], CELLS * PLANES + 4);
  }

  // The cells around the own head as in `planes`, in the coordinates of `canonical`; and the numbers of `canonical`.
  function writeEgocentric(match, snake, out) {
    const { snakes, beans } = match, [head] = snakes[snake];
    const orientation = writeVector(match, snake, true, out, EGOCENTRIC - VECTOR), places = PLACES[orientation];
    function show(plane, cell, value) {
      const at = 2 * way(head, cell), first = places[at], second = places[at + 1];
      if (first >= 0) out[plane * WINDOW + first] = value;
      if (second >= 0) out[plane * WINDOW + second] = value;
    }
    for (let other = 0; other < SNAKES; other++) {
      const body = snakes[other], plane = other === snake ? 0 : other < TEAM === snake < TEAM ? 1 : 2;
      for (let age = 0; age < body.length; age++) show(plane, body[age], Math.min(WAIT_MAX, body.length - age));
      if (body.length && plane) show(plane + 2, body[0], 1);
    }
    for (const bean of beans) show(5, bean, 1);
    return orientation;
  }

  // --- `tactical` and `tactical_board`

  // Write eight numbers for each move in the snake's own coordinates: what searches find behind it. All are 0 for the
  // reversal and for a cell that is occupied on this turn.
  function writeActions({ snakes, directions }, snake, orientation, out, start) {
    for (let move = 0; move < ACTIONS; move++) {
      const cell = neighbour(snakes[snake][0], move), at = start + ACTION_NUMBERS * moveToLocal(orientation, move);
      if (move === (directions[snake] ^ 1) || searches.waits[cell] > 1) continue;
      const { room, bean, last } = searches.explore(cell, ROOM_MOVES);
      const { own, foes, worth } = searches.contest(snake, cell, CONTEST_MOVES);
      out[at] = 1;
      out[at + 1] = Math.min(127, room);
      out[at + 2] = bean ? ROOM_MOVES + 1 - bean : 0;
      out[at + 3] = Math.min(127, own);
      out[at + 4] = Math.min(127, foes);
      out[at + 5] = clamp(Math.floor(worth / WORTH_UNIT), 127);
      out[at + 6] = Number(searches.tailMayStay(snake, cell));
      // A shortest way of DEPTH moves is a way on, so that most searches for dead ends need not begin.
      out[at + 7] = Number(last < searches.DEPTH && searches.isDeadEnd(snake, move));
    }
  }

  // An encoder of functions that write into a row of zeros.
  const encoder = (width, write) => (match, snake) => {
    const out = new Float32Array(width);
    searches.read(match);
    write(match, snake, out);
    return out;
  };
  const withActions = (width, write) => encoder(width + ACTIONS * ACTION_NUMBERS, (match, snake, out) => {
    const orientation = write(match, snake, out);
    writeActions(match, snake, orientation, out, width);
  });
  const canonical = encoder(VECTOR, writeCanonical);
  const all = {
    features: encoder(VECTOR, (match, snake, out) => writeVector(match, snake, false, out, 0)),
    canonical,
    turned: canonical, // its earlier name
    planes: encoder(PLANES * CELLS + 8, writePlanes),
    egocentric: encoder(EGOCENTRIC, writeEgocentric),
    tactical: withActions(VECTOR, writeCanonical),
    tactical_board: withActions(EGOCENTRIC, writeEgocentric),
  };
  return { encoders: all, moveToLocal };
})();

// The floats of all layers from base64 of little-endian floats; or of half floats, after a factor for each input.
function decodeFloats(base64, widths) {
  const text = atob(base64), view = new DataView(new ArrayBuffer(text.length)), [inputs, outputs] = widths;
  for (let i = 0; i < text.length; i++) view.setUint8(i, text.charCodeAt(i));
  let count = 0;
  for (let i = 1; i < widths.length; i++) count += (widths[i - 1] + 1) * widths[i];
  const numbers = new Float32Array(count);
  if (text.length === 4 * count) {
    for (let i = 0; i < count; i++) numbers[i] = view.getFloat32(4 * i, true);
    return numbers;
  }
  // By exponent: what a half float's fraction of 2^-10 is worth. Without infinities: weights are finite.
  const units = Array.from({ length: 32 }, (_, exponent) => 2 ** (Math.max(exponent, 1) - 25));
  for (let i = 0; i < count; i++) {
    const half = view.getUint16(4 * inputs + 2 * i, true), exponent = half >> 10 & 31;
    numbers[i] = ((exponent ? 1024 : 0) + (half & 1023)) * units[exponent] * (half >> 15 ? -1 : 1);
  }
  for (let i = 0; i < inputs * outputs; i++) numbers[i] *= view.getFloat32(4 * Math.floor(i / outputs), true);
  return numbers;
}

// The policy of {encoder, orientationAt, widths, weights}. orientationAt is the index of the orientation in an
// observation, null for encoders without one. weights are the floats of all layers, per layer the weight
// [inputs, outputs] and the bias: an array, or base64 as decodeFloats reads it.
function makePolicy({ encoder, orientationAt, widths, weights }) {
  const MOVES = 4, encode = encoders[encoder];
  const numbers = typeof weights === "string" ? decodeFloats(weights, widths) : weights;
  const layers = [];
  for (let i = 0, at = 0; i < widths.length - 1; i++) {
    const [inputs, outputs] = [widths[i], widths[i + 1]], end = at + inputs * outputs;
    layers.push({ outputs, weight: numbers.subarray(at, end), bias: numbers.subarray(end, end + outputs) });
    at = end + outputs;
  }

  const TOGETHER = 8, most = Math.max(...widths) + TOGETHER, zeros = new Float32Array(widths[0]);
  const active = new Int32Array(most), factors = new Float64Array(most);

  // Add to the sums of a layer's outputs: the first `count` active inputs times their factors. Eight inputs at a time take
  // less than half the time of one at a time; the last eight are filled up with factors of 0.
  function accumulate(sums, { outputs, weight }, count) {
    for (; count % TOGETHER; count++) active[count] = factors[count] = 0;
    for (let k = 0; k < count; k += TOGETHER) {
      const a = active[k] * outputs, b = active[k + 1] * outputs, c = active[k + 2] * outputs, d = active[k + 3] * outputs;
      const e = active[k + 4] * outputs, f = active[k + 5] * outputs, g = active[k + 6] * outputs, h = active[k + 7] * outputs;
      const fa = factors[k], fb = factors[k + 1], fc = factors[k + 2], fd = factors[k + 3];
      const fe = factors[k + 4], ff = factors[k + 5], fg = factors[k + 6], fh = factors[k + 7];
      for (let j = 0; j < outputs; j++)
        sums[j] += fa * weight[a + j] + fb * weight[b + j] + fc * weight[c + j] + fd * weight[d + j]
          + fe * weight[e + j] + ff * weight[f + j] + fg * weight[g + j] + fh * weight[h + j];
    }
    return sums;
  }

  // The number of inputs that differ from those of another observation, counted up to `most`.
  function differences(obs, other, most) {
    let count = 0;
    for (let i = 0; i < obs.length && count < most; i++) if (obs[i] !== other[i]) count++;
    return count;
  }

  // Sums of the first layer. Most of the board is empty, and observations of copies of a match are nearly equal: only
  // what differs from the nearest of `others` ({obs, sums} of other observations) is added.
  function firstSums(obs, others) {
    let near = null, fewest = differences(obs, zeros, obs.length), count = 0;
    for (const other of others) {
      const differing = differences(obs, other.obs, fewest);
      if (differing < fewest) [near, fewest] = [other, differing];
    }
    for (let i = 0; i < obs.length; i++) {
      const change = near ? obs[i] - near.obs[i] : obs[i];
      if (change !== 0) { active[count] = i; factors[count++] = change; }
    }
    return accumulate(near ? near.sums.slice() : new Float64Array(layers[0].bias), layers[0], count);
  }

  // Four logits, of the moves in the snake's own coordinates, and a value if the network has one.
  function forward(obs, sums = firstSums(obs, [])) {
    for (const layer of layers.slice(1)) {
      let count = 0;
      for (let i = 0; i < sums.length; i++) if (sums[i] > 0) { active[count] = i; factors[count++] = sums[i]; } // ReLU
      sums = accumulate(new Float64Array(layer.bias), layer, count);
    }
    return sums;
  }

  // What the policy says of a position: its outputs, the orientation of the snake's own coordinates, and {obs, sums}.
  // `others` are earlier answers for similar positions; they save time.
  function evaluate(match, snake, others = []) {
    const obs = encode(match, snake), sums = firstSums(obs, others);
    return { outputs: forward(obs, sums), orientation: orientationAt === null ? 0 : obs[orientationAt], obs, sums };
  }

  // Logits of the four moves on the board; that of the reversal is minus infinity.
  function boardLogits(match, snake, { outputs, orientation }) {
    const reversal = match.directions[snake] ^ 1;
    return [0, 1, 2, 3].map((move) => (move === reversal ? -Infinity : outputs[moveToLocal(orientation, move)]));
  }

  // The move of the policy, the probabilities of the four moves on the board, and the value or null.
  function policyOutput(match, snake) {
    const evaluation = evaluate(match, snake), { outputs } = evaluation, logits = boardLogits(match, snake, evaluation);
    const best = Math.max(...logits), weights = logits.map((logit) => Math.exp(logit - best));
    const sum = weights.reduce((a, b) => a + b), value = outputs.length > MOVES ? outputs[MOVES] : null;
    return { move: logits.indexOf(best), probabilities: weights.map((weight) => weight / sum), value };
  }

  return { weights: numbers, encode, forward, evaluate, boardLogits, policyOutput };
}
