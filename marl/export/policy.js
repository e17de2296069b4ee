// A policy in a browser: the twins of the encoders of arena/encoders, the dense layers, and the choice of a move. Needs
// rules.js. Tests compare it with Python.
"use strict";

const { encoders, moveToLocal } = (() => {
  const { ROWS, COLUMNS, CELLS, SNAKES, TEAM, BEANS, TURNS } = rules;
  const WAIT_MAX = 8, LEAD_MAX = 15, NO_BEAN = 31, MIRRORED = 4;
  const BEAN_COLUMNS = 29; // index of the columns to the nearest bean; 0 without a bean
  const REACH = 6, SIDE = 2 * REACH + 1; // cells that `egocentric` shows each way, and in a row
  const STEPS = [[-1, 0], [1, 0], [0, -1], [0, 1]];
  const row = (cell) => Math.floor(cell / COLUMNS), column = (cell) => cell % COLUMNS;
  const wrap = (v, size) => ((v % size) + size) % size;
  const shortWay = (v, size) => wrap(v + size / 2, size) - size / 2;
  const apart = (from, to) => [shortWay(row(to) - row(from), ROWS), shortWay(column(to) - column(from), COLUMNS)];
  const far = ([rows, columns]) => Math.abs(rows) + Math.abs(columns);
  const beside = (cell, rows, columns) => wrap(row(cell) + rows, ROWS) * COLUMNS + wrap(column(cell) + columns, COLUMNS);
  const clamp = (v, most) => Math.max(-most, Math.min(most, v));

  const AROUND = [];
  for (let rows = -2; rows <= 2; rows++)
    for (let columns = -2; columns <= 2; columns++)
      if (far([rows, columns]) === 1 || far([rows, columns]) === 2) AROUND.push([rows, columns]);

  // A step on the board in the snake's own coordinates. An orientation is the direction that becomes up, plus 4 if left
  // and right are then swapped.
  function toLocal(orientation, [rows, columns]) {
    const [ahead, aside] = orientation & 2 ? [columns, -rows] : [rows, columns], sign = 1 - 2 * (orientation & 1);
    return [sign * ahead, sign * aside * (1 - 2 * (orientation >> 2))];
  }

  // A move on the board as a move in the snake's own coordinates.
  function moveToLocal(orientation, move) {
    const [rows, columns] = toLocal(orientation, STEPS[move]);
    return STEPS.findIndex((step) => step[0] === rows && step[1] === columns);
  }

  function teamsOf(snake) {
    const team = snake < TEAM ? 0 : TEAM, three = [0, 1, 2];
    return { mates: three.map((i) => team + i).filter((other) => other !== snake), foes: three.map((i) => TEAM - team + i) };
  }

  // The numbers of entries [distance, numbers], nearest first. Entries of equal distance are ordered by their bytes, last
  // byte first, like the packed numbers of the Python encoder.
  function inOrder(entries) {
    const order = (a, b) => {
      if (a[0] !== b[0]) return a[0] - b[0];
      for (let i = a[1].length - 1; i >= 0; i--)
        if (a[1][i] !== b[1][i]) return (a[1][i] & 255) - (b[1][i] & 255);
      return 0;
    };
    return entries.sort(order).flatMap((entry) => entry[1]);
  }

  const features = (match, snake) => vector(match, snake, 0);

  function canonical(match, snake) {
    const orientation = match.directions[snake], out = vector(match, snake, orientation);
    return out[BEAN_COLUMNS] < 0 ? vector(match, snake, orientation + MIRRORED) : out;
  }

  // The numbers of `features` and `canonical`, in the coordinates of an orientation.
  function vector({ snakes, directions, beans, turn }, snake, orientation) {
    const { mates, foes } = teamsOf(snake), head = snakes[snake][0];
    const heads = snakes.map((body) => (body.length ? body[0] : head)), lengths = snakes.map((body) => body.length);
    const waits = new Int8Array(CELLS);
    for (const body of snakes) body.forEach((cell, age) => { waits[cell] = Math.min(WAIT_MAX, body.length - age); });
    const rowByRow = (step) => { const [rows, columns] = toLocal(orientation, step); return 5 * rows + columns; };
    const around = [...AROUND].sort((a, b) => rowByRow(a) - rowByRow(b));
    const out = around.map(([rows, columns]) => waits[beside(head, rows, columns)]);
    for (let direction = 0; direction < 4; direction++) out.push(Number(moveToLocal(orientation, directions[snake]) === direction));
    for (const others of [foes, mates]) {
      const near = [0, 0, 0, 0];
      for (const other of others) {
        const [rows, columns] = toLocal(orientation, apart(head, heads[other]));
        if (far([rows, columns]) !== 2) continue;
        [rows < 0, rows > 0, columns < 0, columns > 0].forEach((nearer, move) => { near[move] += Number(nearer); });
      }
      out.push(...near);
    }
    const total = (some) => some.reduce((sum, other) => sum + lengths[other], 0);
    out.push(Math.min(127, lengths[snake]), (TURNS - turn) >> 1, clamp(total([snake, ...mates]) - total(foes), 127), 0);

    const byDistance = beans.map((bean) => {
      const distances = heads.map((cell) => far(apart(cell, bean))), own = distances[snake];
      const lead = (others) => Math.min(...others.map((other) => distances[other])) - own;
      return [own, [...toLocal(orientation, apart(head, bean)), lead(foes), lead(mates)]];
    });
    while (byDistance.length < BEANS) byDistance.push([NO_BEAN, [0, 0, -LEAD_MAX, -LEAD_MAX]]);
    out.push(...inOrder(byDistance));
    for (const others of [mates, foes])
      out.push(...inOrder(others.map((other) => {
        const way = toLocal(orientation, apart(head, heads[other])), step = toLocal(orientation, STEPS[directions[other]]);
        return [far(way), [...way, Math.min(127, lengths[other]), ...step]];
      })));
    return Float32Array.from([...out, 0, 0, 0, 0, 0, (orientation >> 1) & 1, orientation]);
  }

  function planes({ snakes, directions, beans, turn }, snake) {
    const out = new Float32Array(6 * CELLS + 8), head = snakes[snake][0];
    const down = ROWS / 2 - row(head), right = COLUMNS / 2 - column(head), totals = [0, 0];
    for (let other = 0; other < SNAKES; other++) {
      const body = snakes[other], foe = Number(other < TEAM !== snake < TEAM);
      const plane = other === snake ? 0 : foe ? 2 : 1;
      totals[foe] += body.length;
      body.forEach((cell, age) => { out[CELLS * plane + beside(cell, down, right)] = Math.min(WAIT_MAX, body.length - age); });
      if (body.length && plane) out[CELLS * (plane + 2) + beside(body[0], down, right)] = 1;
    }
    for (const bean of beans) out[CELLS * 5 + beside(bean, down, right)] = 1;
    out[CELLS * 6 + directions[snake]] = 1;
    out.set([snakes[snake].length, ...totals, TURNS - turn], CELLS * 6 + 4);
    return out;
  }

  // The cells around the own head as in `planes`, in the coordinates of `canonical`; and the numbers of `canonical`.
  function egocentric(match, snake) {
    const numbers = canonical(match, snake), orientation = numbers[numbers.length - 1], { snakes, beans } = match;
    const out = new Float32Array(6 * SIDE * SIDE + 2 + numbers.length), head = snakes[snake][0];
    function show(plane, cell, value) {
      const [rows, columns] = apart(head, cell);
      for (const again of [rows - ROWS, rows, rows + ROWS]) { // the window is wider than the board
        const [ahead, aside] = toLocal(orientation, [again, columns]);
        if (Math.abs(ahead) <= REACH && Math.abs(aside) <= REACH)
          out[(plane * SIDE + ahead + REACH) * SIDE + aside + REACH] = value;
      }
    }
    for (let other = 0; other < SNAKES; other++) {
      const body = snakes[other], plane = other === snake ? 0 : other < TEAM === snake < TEAM ? 1 : 2;
      body.forEach((cell, age) => show(plane, cell, Math.min(WAIT_MAX, body.length - age)));
      if (body.length && plane) show(plane + 2, body[0], 1);
    }
    for (const bean of beans) show(5, bean, 1);
    out.set(numbers, out.length - numbers.length);
    return out;
  }

  // `turned` is the earlier name of `canonical`.
  return { encoders: { features, canonical, turned: canonical, planes, egocentric }, moveToLocal };
})();

function decodeFloats(base64) {
  const text = atob(base64), view = new DataView(new ArrayBuffer(text.length)), numbers = new Float32Array(text.length / 4);
  for (let i = 0; i < text.length; i++) view.setUint8(i, text.charCodeAt(i));
  for (let i = 0; i < numbers.length; i++) numbers[i] = view.getFloat32(4 * i, true);
  return numbers;
}

// The policy of {encoder, orientationAt, widths, weights}. orientationAt is the index of the orientation in an
// observation, null for encoders without one. weights are the floats of all layers, per layer the weight
// [inputs, outputs] and the bias: an array, or base64 of little-endian floats.
function makePolicy({ encoder, orientationAt, widths, weights }) {
  const MOVES = 4, encode = encoders[encoder];
  const numbers = typeof weights === "string" ? decodeFloats(weights) : weights;
  const layers = [];
  for (let i = 0, at = 0; i < widths.length - 1; i++) {
    const [inputs, outputs] = [widths[i], widths[i + 1]], end = at + inputs * outputs;
    layers.push({ outputs, weight: numbers.subarray(at, end), bias: numbers.subarray(end, end + outputs) });
    at = end + outputs;
  }

  const active = new Int32Array(Math.max(...widths)), factors = new Float64Array(Math.max(...widths));

  // Add to the sums of a layer's outputs: the first `count` active inputs times their factors. Four inputs at a time
  // take half the time of one at a time.
  function accumulate(sums, { outputs, weight }, count) {
    let k = 0;
    for (; k + 4 <= count; k += 4) {
      const a = active[k] * outputs, b = active[k + 1] * outputs, c = active[k + 2] * outputs, d = active[k + 3] * outputs;
      const fa = factors[k], fb = factors[k + 1], fc = factors[k + 2], fd = factors[k + 3];
      for (let j = 0; j < outputs; j++)
        sums[j] += fa * weight[a + j] + fb * weight[b + j] + fc * weight[c + j] + fd * weight[d + j];
    }
    for (; k < count; k++)
      for (let j = 0, at = active[k] * outputs, factor = factors[k]; j < outputs; j++) sums[j] += factor * weight[at + j];
    return sums;
  }

  // Sums of the first layer. Most of the board is empty, and observations of copies of a match are nearly equal: only
  // what differs from `near` ({obs, sums} of another observation, or null) is added.
  function firstSums(obs, near) {
    let used = 0, count = 0;
    if (near) for (let i = 0; i < obs.length; i++) {
      if (obs[i] !== 0) used++;
      if (obs[i] !== near.obs[i]) { active[count] = i; factors[count++] = obs[i] - near.obs[i]; }
    }
    if (near && count < used) return accumulate(near.sums.slice(), layers[0], count);
    count = 0;
    for (let i = 0; i < obs.length; i++) if (obs[i] !== 0) { active[count] = i; factors[count++] = obs[i]; }
    return accumulate(new Float64Array(layers[0].bias), layers[0], count);
  }

  // Four logits, of the moves in the snake's own coordinates, and a value if the network has one.
  function forward(obs, sums = firstSums(obs, null)) {
    for (const layer of layers.slice(1)) {
      let count = 0;
      for (let i = 0; i < sums.length; i++) if (sums[i] > 0) { active[count] = i; factors[count++] = sums[i]; } // ReLU
      sums = accumulate(new Float64Array(layer.bias), layer, count);
    }
    return sums;
  }

  // What the policy says of a position: its outputs, the orientation of the snake's own coordinates, and {obs, sums}.
  // `near` is an earlier answer for a similar position, or null; it saves time.
  function evaluate(match, snake, near = null) {
    const obs = encode(match, snake), sums = firstSums(obs, near);
    return { outputs: forward(obs, sums), orientation: orientationAt === null ? 0 : obs[orientationAt], obs, sums };
  }

  // Logits of the four moves on the board; that of the reversal is minus infinity.
  function boardLogits(match, snake, { outputs, orientation }) {
    const reversal = match.directions[snake] ^ 1;
    return [0, 1, 2, 3].map((move) => (move === reversal ? -Infinity : outputs[moveToLocal(orientation, move)]));
  }

  // The move of the policy, the probabilities of the four moves on the board, and the value or null.
  function think(match, snake) {
    const evaluation = evaluate(match, snake), { outputs } = evaluation, logits = boardLogits(match, snake, evaluation);
    const best = Math.max(...logits), weights = logits.map((logit) => Math.exp(logit - best));
    const sum = weights.reduce((a, b) => a + b), value = outputs.length > MOVES ? outputs[MOVES] : null;
    return { move: logits.indexOf(best), probabilities: weights.map((weight) => weight / sum), value };
  }

  return { weights: numbers, encode, forward, evaluate, boardLogits, think };
}
