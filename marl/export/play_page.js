// The play page: a human plays one snake with and against a policy, or watches the policy play itself. The opposing team
// has a level of levels.js; at the highest it looks ahead (planner_worker.js).
"use strict";

(() => {
  const SPEEDS = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64]; // turns per second
  const AT_FIRST = { playing: 4, watching: 6 };
  const levels = { playing: LEVELS.findIndex(({ name }) => name === "easy"), watching: FULL };
  const PLAY = "M7 4v16l13-8z", PAUSE = "M6 4h4.5v16H6zM13.5 4H18v16h-4.5z";
  const KEYS = { ArrowUp: 0, KeyW: 0, ArrowDown: 1, KeyS: 1, ArrowLeft: 2, KeyA: 2, ArrowRight: 3, KeyD: 3 };
  const TEAMS = ["red", "blue"], QUEUED = 2, SWIPE = 22; // moves in the queue of the human; pixels
  const data = JSON.parse(document.getElementById("data").textContent);
  const look = data.look, policy = makePolicy(data.policy), plannerWorker = makePlannerWorker({ ...data.policy, weights: policy.weights }, () => wake());
  const portrait = makePortrait(look), upright = makeBoard(look), sideways = makeBoard(portrait.look);
  const $ = (selector) => document.querySelector(selector);
  const { say, keep } = makeLanguage(data.chinese, document.body, $("#language"));
  const canvas = $("#board"), context = canvas.getContext("2d");
  const score = (state, team) =>
    state.snakes.slice(3 * team, 3 * team + 3).reduce((sum, body) => sum + body.length - look.startLength, 0);

  // --- a match

  let seed = data.seed, number = "0"; // texts: they may be too large for JavaScript's numbers
  let seat = data.seat, queue = [], match, timeline, policyOutputs, time = 0;
  let playing = false, waiting = false, showPolicy = false;
  let speed = AT_FIRST.playing, lastTick = 0, frame = 0, cell = 0, ratio = 1;
  let turned = false, turnedTimeline, milliseconds = Number($("#budget").value);
  const last = () => timeline.states.length - 1;
  const ended = () => match.over && time >= last();
  const rivals = () => (seat !== null && seat >= rules.TEAM ? 0 : 1); // the team that has the level
  const mine = (team) => seat !== null && team === (seat < rules.TEAM ? 0 : 1);
  const mode = () => (seat === null ? "watching" : "playing");
  const level = () => levels[mode()];

  function begin(newNumber = number, newSeed = seed) {
    [seed, number] = [String(newSeed), String(newNumber)];
    match = rules.start(seed, number);
    [timeline, turnedTimeline] = [{ states: [], steps: [] }, { states: [], steps: [] }];
    record(null);
    policyOutputs = [presentOutputs()];
    [time, queue] = [0, []];
    waiting = seat !== null; // for the first move of the human
    playing = !waiting;
    [$("#seed").value, $("#number").value] = [seed, number];
    lookAhead();
    wake();
  }

  function record(step) {
    const state = rules.dictionary(match);
    timeline.states.push(state);
    timeline.steps.push(step);
    turnedTimeline.states.push(portrait.state(state));
    turnedTimeline.steps.push(portrait.step(step));
  }

  function presentOutputs() {
    return match.over ? [] : match.snakes.map((_, snake) => policy.policyOutput(match, snake));
  }

  // Let the opposing team plan its next moves, if its level asks for it.
  function lookAhead() {
    if (level() !== AHEAD) plannerWorker.stop();
    else if (!match.over) plannerWorker.ask(match, rivals(), { seed, number, milliseconds });
  }

  // The moves of the policy; those of the opposing team by its level.
  function computerMoves() {
    const moves = policyOutputs[last()].map((output) => output.move), { noise } = LEVELS[level()];
    const planned = level() === AHEAD ? plannerWorker.plan(match, rivals()) : null;
    for (let i = 0, snake = rules.TEAM * rivals(); i < rules.TEAM; i++, snake++)
      moves[snake] = planned && planned.moves ? planned.moves[i] : soften(match, snake, moves[snake], noise);
    return moves;
  }

  // Play one turn: the move of the human (straight on if the queue is empty) and the moves of the computer.
  function advance() {
    const moves = computerMoves();
    if (seat !== null) moves[seat] = queue.length ? queue.shift() : match.directions[seat];
    const before = match, played = rules.playTurn(match, moves), numbers = [0, 1, 2, 3, 4, 5];
    match = played.match;
    if (seat !== null && played.died[seat]) queue = [];
    record({
      actions: moves,
      moves: played.taken.map((move, snake) => (played.died[snake] ? -1 : move)),
      grew: match.snakes.map((body, snake) => body.length > before.snakes[snake].length),
      ate: numbers.filter((snake) => played.ate[snake]),
      died: numbers.filter((snake) => played.died[snake]),
      lunges: Object.fromEntries(numbers.filter((snake) => played.died[snake]).map((snake) => [snake, played.taken[snake]])),
    });
    policyOutputs.push(presentOutputs());
    lookAhead();
  }

  // --- the human

  // Steer in a direction of the screen.
  function steer(direction) {
    if (seat === null || match.over) return;
    const move = turned ? portrait.steered(direction) : direction;
    const facing = queue.length ? queue[queue.length - 1] : match.directions[seat];
    // A reversal is ignored: the game would replace it by a random move.
    if (move !== (facing ^ 1) && (move !== facing || waiting) && queue.length < QUEUED) queue.push(move);
    if (waiting || !playing) play(true);
  }

  function play(go = !playing) {
    if (ended()) return begin(BigInt(number) + 1n);
    [playing, waiting] = [go, false];
    wake();
  }

  function takeSeat(snake) {
    const had = seat;
    seat = snake;
    queue = [];
    fit();
    if (had === null && seat !== null) speed = Math.min(speed, AT_FIRST.playing);
    if (had !== null && seat === null) speed = Math.max(speed, AT_FIRST.watching);
    if (ended()) return begin();
    lookAhead();
    if (seat === null) return play(playing || waiting);
    [playing, waiting] = [false, true]; // until the first move
    wake();
  }

  function setLevel(newLevel) {
    levels[mode()] = newLevel;
    lookAhead();
    fit();
  }

  function setSpeed(by) {
    const at = SPEEDS.findIndex((each) => each >= speed);
    speed = SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, at + by))];
    wake();
  }

  // The match so far as a replay file.
  function replay() {
    const side = (team) => {
      const name = team === rivals() && level() !== FULL ? `${data.name} (${LEVELS[level()].name})` : data.name;
      return mine(team) ? `human and ${data.name}` : name;
    };
    const date = new Date().toLocaleDateString("sv"); // of this place, as 2026-11-15
    return replayFile({ seed, number, red: side(0), blue: side(1), date, ...timeline });
  }

  function save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([replay()], { type: "application/jsonl" }));
    link.download = `${data.name}-seed${seed}-match${number}`.replace(/[^\p{L}\p{N}.-]+/gu, "_") + ".jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // --- drawing

  function wake() { if (!frame) { lastTick = 0; frame = requestAnimationFrame(tick); } }

  function tick(now) {
    frame = 0;
    const passed = lastTick ? Math.min(0.1, (now - lastTick) / 1000) : 0; // a hidden page pauses
    lastTick = now;
    if (playing) {
      let left = passed * speed;
      while (left > 0 && !ended()) {
        if (time >= last()) {
          if (plannerWorker.awaited(match)) break;
          advance();
        }
        const part = Math.min(left, last() - time);
        time = last() - time - part < 1e-9 ? last() : time + part;
        left -= part;
      }
      if (ended()) playing = false;
    }
    paint();
    if (playing) frame = requestAnimationFrame(tick);
  }

  function paint() {
    const turn = Math.floor(time), state = timeline.states[Math.min(last(), Math.ceil(time - 0.5))];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    board().draw(context, cell, shownTimeline(), time, { follow: seat });
    if (showPolicy) drawArrows(turn);
    TEAMS.forEach((team, i) => {
      const name = $(`.team.${team} h2`);
      const softened = i === rivals() && level() !== FULL ? `${data.name} · ${say(LEVELS[level()].name)}` : data.name;
      name.textContent = name.title = mine(i) ? say("You and {name}", data) : softened;
      $(`.result .${team}`).textContent = score(state, i);
    });
    const lengths = state.snakes.map((body) => body.length), total = lengths.reduce((a, b) => a + b);
    document.querySelectorAll(".chip").forEach((chip, snake) => {
      const gain = chip.querySelector(".gain");
      gain.textContent = lengths[snake] - look.startLength; // the gains of a team add up to its score
      gain.classList.toggle("up", lengths[snake] >= look.startLength);
      chip.setAttribute("aria-pressed", String(seat === snake));
      const output = policyOutputs[turn][snake];
      const what = say(seat === snake ? "You are snake {snake}" : "Play snake {snake}", { snake });
      chip.title = say("{what}, {length} cells long", { what, length: lengths[snake] })
        + (output && output.value !== null ? say("; the policy expects {value}", { value: output.value.toFixed(2) }) : "");
    });
    $("#share i").style.width = `${(100 * (lengths[0] + lengths[1] + lengths[2])) / Math.max(1, total)}%`;
    $(".turn b").textContent = `${state.turn} / ${look.turns}`;
    $("#play path").setAttribute("d", playing ? PAUSE : PLAY);
    $("#speed").textContent = say(speed === 1 ? "1 turn/s" : "{speed} turns/s", { speed });
    $("#watch").setAttribute("aria-pressed", String(seat === null));
    $("#policy").setAttribute("aria-pressed", String(showPolicy));
    $("#level").value = String(Math.min(level(), FULL));
    $("#ahead").setAttribute("aria-pressed", String(level() === AHEAD));
    $("#note").textContent = say(plannerWorker.note());
    paintBanner(state);
  }

  function paintBanner(state) {
    const banner = $("#banner"), scores = [score(state, 0), score(state, 1)], lead = scores[0] - scores[1];
    let [text, hint, team] = ["", "", ""];
    if (ended()) {
      team = lead ? TEAMS[lead > 0 ? 0 : 1] : "";
      const first = seat === null ? (lead < 0 ? 1 : 0) : mine(0) ? 0 : 1; // the human's own score, else the winner's
      const yours = team === TEAMS[first], result = { own: scores[first], other: scores[1 - first] };
      const how = !lead ? "A draw" : seat === null ? `${team} wins` : yours ? "You win" : "You lose";
      text = say(`${how} {own} : {other}`, result);
      hint = say("space or touch: the next match") + (seat !== null && team && !yours && level() ? `\n${say("easier opponents: below")}` : "");
    } else if (waiting) {
      text = say("You are snake {snake}", { snake: seat });
      hint = say(matchMedia("(pointer: coarse)").matches ? "swipe to steer" : "steer with the arrow keys or W A S D");
      hint += `\n${say("opponents: {level}", { level: say(LEVELS[level()].name) })}`;
    } else if (!playing) {
      text = say("Paused");
    }
    banner.hidden = !text;
    banner.className = team;
    const row = waiting && shownTimeline().states[last()].snakes[seat][0][0] / (turned ? look.columns : look.rows);
    banner.style.top = waiting ? (row < 0.5 ? "80%" : "20%") : ""; // away from the own snake
    banner.replaceChildren(text, ...(hint ? [Object.assign(document.createElement("small"), { textContent: hint })] : []));
  }

  // Arrows around each head: the more probable a move, the larger and clearer its arrow. Its percentage stands beside it,
  // if there is a choice and room for letters.
  function drawArrows(turn) {
    policyOutputs[turn].forEach(({ probabilities }, snake) => {
      const head = board().headAt(shownTimeline(), snake, time);
      if (!head) return;
      probabilities.forEach((share, move) => {
        if (share < 0.01) return;
        const [right, down] = upright.STEPS[turned ? portrait.shown(move) : move], [columns, rows] = shownSize();
        const x = upright.wrap(head[0] + 0.95 * right, columns), y = upright.wrap(head[1] + 0.95 * down, rows);
        const size = cell * (0.14 + 0.2 * share), angle = Math.atan2(down, right);
        context.save();
        context.translate(x * cell, y * cell);
        context.rotate(angle);
        context.beginPath();
        context.moveTo(size, 0);
        context.lineTo(-size * 0.6, -size);
        context.lineTo(-size * 0.6, size);
        context.closePath();
        context.fillStyle = upright.rgb(look.snakes[snake], 0.3 + 0.7 * share);
        context.fill();
        context.strokeStyle = `rgba(255,255,255,${0.25 + 0.65 * share})`;
        context.lineWidth = Math.max(1, cell * 0.05);
        context.stroke();
        context.restore();
        if (cell < 26 || share > 0.99) return;
        context.font = `700 ${0.3 * cell}px system-ui, sans-serif`;
        [context.textAlign, context.textBaseline] = ["center", "middle"];
        context.fillStyle = "#fff";
        const [left, top] = [upright.wrap(x + 0.85 * right, columns), upright.wrap(y + 0.55 * down, rows)];
        context.fillText(`${Math.round(100 * share)} %`, left * cell, top * cell);
      });
    });
  }

  const board = () => (turned ? sideways : upright), shownTimeline = () => (turned ? turnedTimeline : timeline);
  const shownSize = () => (turned ? [look.rows, look.columns] : [look.columns, look.rows]);

  // The side of a cell in pixels, for the board turned or not. A turned board may push the numbers of the match, at the
  // end of the page, out of sight.
  function cellSize(turn) {
    turned = turn;
    document.body.classList.toggle("turned", turned);
    canvas.style.height = "0";
    const main = $("main"), style = getComputedStyle(main), [columns, rows] = shownSize();
    const wide = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const end = (turned ? $("#controls") : main).getBoundingClientRect().bottom - main.getBoundingClientRect().top;
    const size = Math.floor(Math.min(wide / columns, Math.max((innerHeight - end) / rows, turned ? 0 : 22)));
    return Math.min(Math.max(14, size), wide / columns);
  }

  function fit() {
    ratio = window.devicePixelRatio || 1;
    $("#pad").classList.toggle("on", seat !== null);
    $("#thinking").hidden = level() !== AHEAD;
    const plain = cellSize(false);
    cell = innerHeight > innerWidth ? cellSize(true) : 0;
    if (cell < 1.15 * plain) cell = cellSize(false);
    const [width, height] = shownSize().map((cells) => cells * cell);
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
    document.querySelectorAll(".chip canvas").forEach((chip, snake) => {
      const [w, h] = [chip.clientWidth, chip.clientHeight], size = Math.min(w / 3.3, h / 1.3);
      [chip.width, chip.height] = [w * ratio, h * ratio];
      const pen = chip.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, (w - 3 * size) / 2 * ratio, (h - size) / 2 * ratio);
      upright.sample(pen, size, snake);
    });
    wake();
  }

  // --- input: keys, touch, buttons

  function makeChips() {
    for (let snake = 0; snake < rules.SNAKES; snake++) {
      const chip = document.createElement("button");
      chip.className = "chip";
      const [name, gain, you] = ["name", "gain", "you"].map((part) => Object.assign(document.createElement("span"), { className: part }));
      name.textContent = snake;
      keep(() => { you.textContent = say("you"); });
      name.style.background = upright.rgb(look.snakes[snake]);
      chip.append(name, document.createElement("canvas"), gain, you);
      chip.addEventListener("click", () => takeSeat(seat === snake ? null : snake));
      $(`.team.${TEAMS[snake < rules.TEAM ? 0 : 1]} .chips`).append(chip);
    }
  }

  const ACTIONS = {
    again: () => begin(),
    next: () => begin(BigInt(number) + 1n),
    play: () => play(),
    slower: () => setSpeed(-1),
    faster: () => setSpeed(1),
    watch: () => takeSeat(null),
    ahead: () => setLevel(level() === AHEAD ? FULL : AHEAD),
    policy: () => { showPolicy = !showPolicy; wake(); },
    save,
    ask: () => {
      if ($("#help").open) return $("#help").close();
      if (playing) play(false);
      $("#help").showModal();
    },
  };
  const HOTKEYS = { " ": "play", Enter: "play", r: "again", n: "next", "+": "faster", "=": "faster", "-": "slower", v: "watch", t: "policy", f: "save", p: "ahead", "?": "ask" };

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
    const move = KEYS[event.code], action = HOTKEYS[event.key.toLowerCase()];
    if ($("#help").open && action !== "ask") return;
    const onButton = event.target.tagName === "BUTTON" && (event.key === " " || event.key === "Enter");
    if (onButton || (move === undefined && !action && !/^[0-5]$/.test(event.key))) return;
    event.preventDefault();
    if (move !== undefined) { if (!event.repeat) steer(move); } else if (action) ACTIONS[action](); else takeSeat(Number(event.key));
  }

  let touch = null; // the start of a touch, and whether it has steered
  function fingerDown(event) { touch = { x: event.clientX, y: event.clientY, steered: false }; canvas.setPointerCapture(event.pointerId); }
  function fingerMove(event) {
    if (!touch) return;
    const dx = event.clientX - touch.x, dy = event.clientY - touch.y;
    if (Math.max(Math.abs(dx), Math.abs(dy)) < SWIPE) return;
    steer(Math.abs(dx) > Math.abs(dy) ? (dx > 0 ? 3 : 2) : dy > 0 ? 1 : 0);
    touch = { x: event.clientX, y: event.clientY, steered: true };
  }
  function fingerUp() { if (touch && !touch.steered && !waiting) play(); touch = null; }

  makeChips();
  $("#level").append(...LEVELS.slice(0, AHEAD).map((_, i) => new Option("", i)));
  keep(() => { [...$("#level").options].forEach((option, i) => { option.text = say(LEVELS[i].name); }); });
  $("#level").addEventListener("change", (event) => { setLevel(Number(event.target.value)); event.target.blur(); });
  $("#budget").addEventListener("change", (event) => { milliseconds = Number(event.target.value); lookAhead(); event.target.blur(); });
  Object.entries(ACTIONS).forEach(([id, act]) => $(`#${id}`).addEventListener("click", (event) => { act(); event.currentTarget.blur(); }));
  document.querySelectorAll("#pad button").forEach((button) =>
    button.addEventListener("pointerdown", (event) => { event.preventDefault(); steer(Number(button.dataset.move)); }));
  canvas.addEventListener("pointerdown", fingerDown);
  canvas.addEventListener("pointermove", fingerMove);
  canvas.addEventListener("pointerup", fingerUp);
  canvas.addEventListener("pointercancel", () => { touch = null; });
  $("#which").addEventListener("submit", (event) => event.preventDefault());
  $("#which").addEventListener("change", () => { if ($("#which").checkValidity() && $("#number").value && $("#seed").value) begin($("#number").value, $("#seed").value); });
  $("#help").addEventListener("click", (event) => { if (event.target === $("#help")) $("#help").close(); });
  addEventListener("keydown", pressed);
  addEventListener("resize", fit);
  document.addEventListener("visibilitychange", () => { if (document.hidden && playing && seat !== null) play(false); });
  document.title = `${data.name} · Snakes 3v3`;
  // For tests and for users of the browser console.
  window.snakes = {
    policy, plannerWorker,
    state: (k) => timeline.states[k],
    steps: () => timeline.steps,
    policyOutputs: (k) => policyOutputs[k],
    shown: () => ({ seed, number, time, last: last(), seat, playing, waiting, speed, queue: [...queue], over: match.over, level: level(), turned }),
    match: () => match,
    begin, advance, steer, play, takeSeat, setLevel, replay,
  };
  begin();
  keep(fit); // texts have other widths, and all that is painted has texts
  paint();
  fit(); // once more: the texts have their heights now
})();
