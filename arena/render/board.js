// The board on a canvas: a match at any time, also between two turns. The picture depends on the timeline and the time
// alone, so going back, jumping and stopping show the same picture as playing.
//
// A timeline holds the frames of one match by turn: states[k] (the match dictionary after turn k; 0 is the start), and
// from k = 1 on steps[k], the events of turn k: {moves: [0-3, or -1 for a new body], grew: [bool], ate: [snakes],
// died: [snakes], lunges: {snake: 0-3}}. A lunge is the last move of a snake that died.
"use strict";

function makeBoard(look) {
  const { rows: ROWS, columns: COLUMNS } = look;
  const STEPS = [[0, -1], [0, 1], [-1, 0], [1, 0]]; // x, y of up, down, left, right
  const HEAD = look.radii.head, NECK = look.radii.neck, TAIL = look.radii.tail, BEAN = look.radii.bean;
  const CORNER = 0.42; // radius of a body's bends, in cells
  const GULP_SPEED = 1.7; // of a swallowed bean that travels down the body, in cells per turn
  const SHADES = 64, ARC = 10; // shades along a body; pieces of a bend
  const rgb = (colour, alpha = 1) => `rgba(${colour.map(Math.round).join(",")},${alpha})`;
  const mix = (a, b, share) => a.map((v, i) => v + (b[i] - v) * share);
  const clamp = (v, low = 0, high = 1) => Math.min(high, Math.max(low, v));
  const wrap = (v, size) => ((v % size) + size) % size;
  const nearest = (v, size) => wrap(v + size / 2, size) - size / 2; // the shorter way around the torus
  const angleOf = (direction) => Math.atan2(STEPS[direction][1], STEPS[direction][0]);
  const smooth = (v) => v * v * (3 - 2 * v);
  const shades = look.snakes.map((colour) =>
    Array.from({ length: SHADES + 1 }, (_, i) => rgb(colour.map((v) => v * (1 + (look.tailShade - 1) * i / SHADES)))));
  // A "random" number that depends on its arguments alone: two pictures of one moment are equal.
  const chance = (a, b) => wrap(Math.sin(a * 127.1 + b * 311.7) * 43758.5453, 1);

  let ctx, cell, camera, turned; // turned by 90 degrees, clockwise; texts stay upright

  // Options: camera [x, y], follow: a snake, turned: the picture is ROWS cells wide and COLUMNS high.
  function draw(context, size, timeline, time, options = {}) {
    ctx = context;
    cell = size;
    camera = options.camera || [0, 0];
    turned = Boolean(options.turned);
    const last = timeline.states.length - 1;
    time = clamp(time, 0, last);
    const turn = Math.min(Math.floor(time), last), part = time - turn;
    ctx.save();
    if (turned) { ctx.translate(ROWS * cell, 0); ctx.rotate(Math.PI / 2); }
    ctx.beginPath();
    ctx.rect(0, 0, COLUMNS * cell, ROWS * cell);
    ctx.clip();
    drawFloor();
    const moving = part > 0 && turn < last;
    drawBeans(timeline, turn, part, moving);
    const snakes = timeline.states[turn].snakes.map((_, snake) => pose(timeline, snake, turn, part, moving));
    for (const shape of snakes) if (shape) drawBody(timeline, shape, time);
    for (const shape of snakes) if (shape) drawHead(shape, options.follow === shape.snake);
    drawEffects(timeline, turn, time);
    ctx.restore();
  }

  function drawFloor() {
    ctx.fillStyle = rgb(look.board[0]);
    ctx.fillRect(0, 0, COLUMNS * cell, ROWS * cell);
    ctx.fillStyle = rgb(look.board[1]);
    const [left, top] = camera;
    for (let y = Math.floor(top); y <= top + ROWS; y++)
      for (let x = Math.floor(left); x <= left + COLUMNS; x++)
        if (wrap(x + y, 2) === 1) ctx.fillRect((x - left) * cell, (y - top) * cell, cell, cell);
    if (left || top) { // the camera has moved: show the edges of the board as dashed lines
      ctx.strokeStyle = rgb(look.text, 0.16);
      ctx.lineWidth = Math.max(1, cell * 0.04);
      ctx.setLineDash([cell * 0.16, cell * 0.14]);
      const x = wrap(-left, COLUMNS) * cell, y = wrap(-top, ROWS) * cell;
      ctx.beginPath();
      ctx.moveTo(x, 0); ctx.lineTo(x, ROWS * cell);
      ctx.moveTo(0, y); ctx.lineTo(COLUMNS * cell, y);
      ctx.stroke();
      ctx.setLineDash([]);
    }
  }

  // Calls paint() once for every copy of a box on the torus that is inside the picture. The box is in cells; the middle of
  // cell 0 is 0.5.
  function everywhere(box, paint) {
    const [low, high] = [0, 1].map((axis) => {
      const size = axis ? ROWS : COLUMNS;
      return [Math.ceil((camera[axis] - box[axis + 2]) / size), Math.floor((camera[axis] + size - box[axis]) / size)];
    });
    for (let i = low[0]; i <= low[1]; i++)
      for (let j = high[0]; j <= high[1]; j++) {
        ctx.save();
        ctx.scale(cell, cell);
        ctx.translate(i * COLUMNS - camera[0], j * ROWS - camera[1]);
        paint();
        ctx.restore();
      }
  }

  function disc(x, y, radius, style) {
    ctx.fillStyle = style;
    ctx.beginPath();
    ctx.arc(x, y, Math.max(0, radius), 0, 2 * Math.PI);
    ctx.fill();
  }

  function ring(x, y, radius, width, style) {
    [ctx.strokeStyle, ctx.lineWidth] = [style, width];
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    ctx.stroke();
  }

  // A short text around the origin. Drawn 100 times as large: some browsers do not draw letters smaller than a pixel.
  function write(text, size, style, below = 0) {
    ctx.save();
    if (turned) ctx.rotate(-Math.PI / 2);
    ctx.scale(0.01, 0.01);
    ctx.fillStyle = style;
    ctx.font = `800 ${size}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(text, 0, below);
    ctx.restore();
  }

  function around(x, y, radius, paint) {
    everywhere([x - radius, y - radius, x + radius, y + radius], paint);
  }

  // --- beans

  function drawBeans(timeline, turn, part, moving) {
    const now = timeline.states[turn].beans, next = moving ? timeline.states[turn + 1].beans : now;
    const has = (list, bean) => list.some((other) => other[0] === bean[0] && other[1] === bean[1]);
    for (const bean of now) {
      const born = turn > 0 && !has(timeline.states[turn - 1].beans, bean);
      let size = born && moving ? clamp(part * 2.2) : 1;
      if (moving && !has(next, bean)) size *= 1 - clamp((part - 0.62) / 0.3);
      const bounce = born && moving ? 1 + 0.35 * Math.sin(Math.PI * size) : 1;
      const x = bean[1] + 0.5, y = bean[0] + 0.5;
      if (size > 0)
        around(x, y, 0.6, () => {
          const glow = ctx.createRadialGradient(x, y, 0.1, x, y, 0.55);
          glow.addColorStop(0, rgb(look.bean, 0.3 * size));
          glow.addColorStop(1, rgb(look.bean, 0));
          disc(x, y, 0.55, glow);
          disc(x, y, BEAN * (born && moving ? smooth(size) * bounce : size), rgb(look.bean));
        });
    }
  }

  // --- snakes

  // Position and look of a snake. `runs` are lists of connected points [x, y, place in the body: 0 head to 1 tail], head
  // first.
  function pose(timeline, snake, turn, part, moving) {
    const state = timeline.states[turn], body = state.snakes[snake];
    if (!body.length) return null;
    const step = moving ? timeline.steps[turn + 1] : null;
    const born = turn > 0 && timeline.steps[turn].died.includes(snake);
    const shape = { snake, alpha: 1, flash: 0, size: born ? (moving ? 0.35 + 0.65 * smooth(clamp(part * 1.6)) : 1) : 1 };
    const cells = body.map(([row, column]) => [column + 0.5, row + 0.5]);
    const before = state.directions[snake];
    let facing = before, rotation = 1, way = 0, leaves = false;
    if (step) {
      const dies = step.died.includes(snake), move = dies ? step.lunges[snake] : step.moves[snake];
      if (move < 0) { // the new body does not follow from the old one: the old one fades
        shape.alpha = 1 - part;
      } else {
        facing = move;
        rotation = smooth(clamp(part * 3));
        way = dies ? 0.5 * smooth(clamp(part * 2)) : part; // halfway into the obstacle, not through it
        leaves = dies || !step.grew[snake];
        cells.unshift([cells[0][0] + STEPS[move][0] * way, cells[0][1] + STEPS[move][1] * way]);
        if (dies) {
          shape.flash = clamp((part - 0.4) * 3);
          shape.alpha = 1 - smooth(clamp((part - 0.6) / 0.4));
        }
      }
    }
    shape.runs = runsOf(cells, way, leaves);
    const angle = angleOf(before);
    shape.angle = angle + nearest(angleOf(facing) - angle, 2 * Math.PI) * rotation;
    return shape;
  }

  // Cells as runs of connected points. The first cell of a moving snake is `way` (less than 1) ahead of its head; its tail
  // leaves the last cell by the same amount, unless the snake grows.
  function runsOf(cells, way = 0, leaves = false) {
    const end = cells.length - 1;
    const long = way ? end - 1 + (leaves ? 0 : way) : end; // from head to tail, in cells
    const place = (i) => Math.min(1, (way ? Math.max(0, i - 1 + way) : i) / Math.max(1, long));
    let run = [[...cells[0], 0]];
    const runs = [run];
    for (let i = 1; i <= end; i++) {
      const ahead = run[run.length - 1], tail = leaves && i === end;
      let dx = nearest(cells[i][0] - ahead[0], COLUMNS), dy = nearest(cells[i][1] - ahead[1], ROWS);
      if (Math.abs(dx) + Math.abs(dy) > 1.01) { // a gap: the body of a respawned snake can have one
        if (tail && way > 0.5) break;
        run = [[...cells[i], place(i)]];
        runs.push(run);
        continue;
      }
      if (tail) { dx *= 1 - way; dy *= 1 - way; }
      run.push([ahead[0] + dx, ahead[1] + dy, place(i)]);
    }
    return runs;
  }

  // A run as a dense list of points, with circular bends.
  function rounded(run) {
    const points = [run[0]], end = run.length - 1;
    const straightTo = (to) => { // points close enough for every change of width and shade
      const from = points[points.length - 1], pieces = Math.ceil(Math.hypot(to[0] - from[0], to[1] - from[1]) / 0.1);
      for (let k = 1; k <= pieces; k++) points.push(mix(from, to, k / pieces));
    };
    for (let i = 1; i < end; i++) {
      const [a, b, c] = [run[i - 1], run[i], run[i + 1]];
      const before = Math.hypot(a[0] - b[0], a[1] - b[1]), after = Math.hypot(c[0] - b[0], c[1] - b[1]);
      const bends = Math.abs((a[0] - b[0]) * (c[1] - b[1]) - (a[1] - b[1]) * (c[0] - b[0])) > 1e-6;
      const radius = Math.min(CORNER, i === 1 ? before : before / 2, i === end - 1 ? after : after / 2);
      if (!bends || radius < 0.02) { straightTo(b); continue; }
      const from = mix(b, a, radius / before), to = mix(b, c, radius / after);
      straightTo(from);
      for (let k = 1; k <= ARC; k++) { // from + to - b is the centre
        const angle = (Math.PI / 2) * (k / ARC), [u, v] = [1 - Math.sin(angle), 1 - Math.cos(angle)];
        points.push(b.map((at, axis) => (axis < 2 ? at + (from[axis] - at) * u + (to[axis] - at) * v : from[2] + (to[2] - from[2]) * k / ARC)));
      }
    }
    if (end > 0) straightTo(run[end]);
    return points;
  }

  function drawBody(timeline, shape, time) {
    const gulps = gulpsOf(timeline, shape.snake, time);
    const length = timeline.states[Math.floor(time)].snakes[shape.snake].length;
    const radius = (place) => {
      let r = NECK + (TAIL - NECK) * place;
      for (const gulp of gulps) r += 0.1 * Math.exp(-(((place * (length - 1) - gulp) / 0.6) ** 2));
      return r * shape.size;
    };
    for (const run of shape.runs) {
      const points = rounded(run);
      const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
      const box = [Math.min(...xs) - 0.6, Math.min(...ys) - 0.6, Math.max(...xs) + 0.6, Math.max(...ys) + 0.6];
      everywhere(box, () => {
        ctx.globalAlpha = shape.alpha;
        drawRibbon(points, radius, shades[shape.snake]);
        drawMarks(run, points, run === shape.runs[0] ? 1 : 0, shape); // no mark on the head
        if (shape.flash) drawRibbon(points, () => NECK, Array(SHADES + 1).fill(`rgba(255,255,255,${0.8 * shape.flash})`));
      });
    }
  }

  // A band along the points with smooth flanks and round ends. Its shades overlap inside, which hides the seams, and not
  // at the flanks: pixels of an edge that are painted twice look like notches.
  function drawRibbon(points, radius, colours) {
    const end = points.length - 1, shade = (i) => Math.round(points[i][2] * SHADES);
    const sides = points.map(([x, y, place], i) => {
      const [a, b] = [points[Math.max(0, i - 1)], points[Math.min(end, i + 1)]];
      const far = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1, r = radius(place);
      return [x, y, ((a[1] - b[1]) / far) * r, ((b[0] - a[0]) / far) * r];
    });
    const fill = (from, to, level, width) => {
      ctx.fillStyle = colours[level];
      ctx.beginPath();
      for (let i = from; i <= to; i++) ctx.lineTo(sides[i][0] + width * sides[i][2], sides[i][1] + width * sides[i][3]);
      for (let i = to; i >= from; i--) ctx.lineTo(sides[i][0] - width * sides[i][2], sides[i][1] - width * sides[i][3]);
      ctx.fill();
    };
    disc(points[end][0], points[end][1], radius(points[end][2]), colours[shade(end)]);
    if (shade(0) !== shade(end)) fill(0, end, Math.round((shade(0) + shade(end)) / 2), 1);
    for (let from = end, to; from > 0; from = to) {
      for (to = from - 1; to > 0 && shade(to) === shade(from - 1); to--);
      fill(to, from, shade(from - 1), 1);
      fill(to, Math.min(end, from + 1), shade(from - 1), 0.94);
    }
    disc(points[0][0], points[0][1], radius(points[0][2]), colours[shade(0)]);
  }

  // The three snakes of a team differ by the mark on every segment, not only by colour: nothing, a dot or a ring.
  function drawMarks(run, points, behind, shape) {
    const [radius, hole] = look.marks.rings[shape.snake % look.marks.rings.length];
    if (!radius) return;
    ctx.strokeStyle = rgb(look.pupil, look.marks.alpha);
    ctx.lineWidth = (radius - hole) * shape.size;
    for (let i = 1, next = behind; i <= run.length; i++) {
      const a = run[i - 1], b = run[i] ?? a, far = Math.hypot(b[0] - a[0], b[1] - a[1]);
      for (; next <= far + 1e-6; next++) {
        const [x, y] = nearestOn(points, mix(a, b, far ? next / far : 0));
        ctx.beginPath();
        ctx.arc(x, y, (radius + hole) / 2 * shape.size, 0, 2 * Math.PI);
        ctx.stroke();
      }
      next -= far;
    }
  }

  // The point of a line that is nearest to a place: in a bend, a mark lies in the middle of the body.
  function nearestOn(points, [x, y]) {
    let [best, least] = [points[0], Infinity];
    for (let i = 1; i < points.length; i++) {
      const [a, b] = [points[i - 1], points[i]], [dx, dy] = [b[0] - a[0], b[1] - a[1]];
      const at = clamp(((x - a[0]) * dx + (y - a[1]) * dy) / (dx * dx + dy * dy || 1));
      const far = Math.hypot(a[0] + dx * at - x, a[1] + dy * at - y);
      if (far < least) [best, least] = [mix(a, b, at), far];
    }
    return best;
  }

  function gulpsOf(timeline, snake, time) {
    const gulps = [];
    for (let turn = Math.floor(time); turn > 0 && turn > time - 20; turn--) {
      if (timeline.steps[turn].died.includes(snake)) break;
      if (timeline.steps[turn].ate.includes(snake)) gulps.push((time - turn) * GULP_SPEED);
    }
    return gulps;
  }

  function drawHead(shape, followed) {
    const [x, y] = shape.runs[0][0];
    around(x, y, 1.2, () => {
      ctx.globalAlpha = shape.alpha;
      if (followed) ring(x, y, 0.72, 0.06, "rgba(255,255,255,0.75)");
      ctx.translate(x, y);
      ctx.scale(shape.size, shape.size);
      disc(0, 0, HEAD, rgb(look.snakes[shape.snake]));
      if (shape.flash) disc(0, 0, HEAD, `rgba(255,255,255,${0.8 * shape.flash})`);
      if (cell >= 22) {
        ctx.save();
        ctx.translate(-0.22 * Math.cos(shape.angle), -0.22 * Math.sin(shape.angle));
        write(String(shape.snake), 36, "rgba(10,12,18,0.78)", 2);
        ctx.restore();
      }
      ctx.rotate(shape.angle);
      for (const side of [-0.21, 0.21]) {
        disc(0.13, side, 0.15, rgb(look.eye));
        disc(0.19, side, 0.085, rgb(look.pupil));
      }
    });
  }

  // --- effects of the last turns

  function drawEffects(timeline, turn, time) {
    for (let when = Math.min(turn + 1, timeline.states.length - 1); when > Math.max(0, turn - 3); when--) {
      for (const snake of timeline.steps[when].died) drawDeath(timeline, snake, when, time - (when - 0.5));
      for (const snake of timeline.steps[when].ate) {
        if (!timeline.steps[when].died.includes(snake)) drawMeal(timeline, snake, when, time - (when - 0.1));
      }
    }
  }

  function drawDeath(timeline, snake, when, age) {
    if (age <= 0 || age > 2.4) return;
    const fade = 1 - age / 2.4, body = timeline.states[when - 1].snakes[snake], colour = look.snakes[snake];
    const lunge = timeline.steps[when].lunges[snake];
    body.forEach(([row, column], i) => {
      for (let k = 0; k < 4; k++) {
        const angle = 2 * Math.PI * chance(i * 4 + k, when), far = (0.25 + 0.9 * chance(k + i * 7, when + 3)) * (1 - fade ** 2);
        const x = column + 0.5 + Math.cos(angle) * far, y = row + 0.5 + Math.sin(angle) * far;
        around(x, y, 0.2, () => disc(x, y, 0.16 * fade, rgb(mix(colour, [255, 255, 255], 0.35 * fade), fade)));
      }
    });
    if (!body.length || lunge === undefined) return;
    const x = body[0][1] + 0.5 + STEPS[lunge][0] * 0.5, y = body[0][0] + 0.5 + STEPS[lunge][1] * 0.5;
    const radius = 0.3 + 1.5 * (1 - fade ** 3);
    around(x, y, radius + 0.2, () => ring(x, y, radius, 0.16 * fade, rgb(mix(colour, [255, 255, 255], 0.6), fade * 0.9)));
  }

  function drawMeal(timeline, snake, when, age) {
    if (age <= 0 || age > 1.6) return;
    const head = timeline.states[when].snakes[snake][0];
    if (!head) return;
    const fade = 1 - age / 1.6, x = head[1] + 0.5, y = head[0] + 0.5, radius = 0.5 + 0.45 * (1 - fade ** 2);
    around(x, y, 1.6, () => {
      ring(x, y, radius, 0.07 * fade + 0.01, rgb(look.bean, 0.75 * fade));
      const above = 0.75 + 0.35 * (1 - fade);
      ctx.translate(x - (turned ? above : 0), y - (turned ? 0 : above));
      write("+1", 42, rgb(look.bean, fade));
    });
  }

  // The position of a snake's head in the picture, in cells; null for a snake without a body.
  function headAt(timeline, snake, time) {
    const last = timeline.states.length - 1, turn = Math.min(Math.floor(time), last), part = time - turn;
    const shape = pose(timeline, snake, turn, part, part > 0 && turn < last);
    return shape && shape.runs[0][0].slice(0, 2);
  }

  // A short snake that faces right, with its head in the middle of cell (2, 0): the legend of the snakes.
  function sample(context, size, snake) {
    [ctx, cell, camera, turned] = [context, size, [0, 0], false];
    const shape = { snake, alpha: 1, flash: 0, size: 1, angle: 0, runs: runsOf([[2.5, 0.5], [1.5, 0.5], [0.5, 0.5]]) };
    drawBody({ states: [{ snakes: Array(look.snakes.length).fill([0, 0, 0]) }], steps: [null] }, shape, 0);
    drawHead(shape, false);
  }

  return { draw, sample, headAt, nearest, wrap, rgb, STEPS };
}
