// The replay page: plays, pauses, jumps and scrubs through the matches of its data, by keys, mouse and touch.
"use strict";
(() => {
  const TURNS_PER_SECOND = 4; // at speed 1
  const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64];
  const PLAY = "M7 4v16l13-8z", PAUSE = "M6 4h4.5v16H6zM13.5 4H18v16h-4.5z";
  const TEAMS = ["red", "blue"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const look = data.look, board = makeBoard(look), $ = (selector) => document.querySelector(selector);
  const total = (state, team) => state.snakes.slice(3 * team, 3 * team + 3).reduce((sum, body) => sum + body.length, 0);
  const score = (state, team) => total(state, team) - 3 * look.startLength;
  const copy = (value) => JSON.parse(JSON.stringify(value));

  // One language for the whole page; markup on top of it may have the button.
  const language = makeLanguage(data.chinese, document.body, $("#language") || $("#viewer-language")), { say, keep } = language;
  $("#viewer-language").hidden = $("#language") !== null;
  if (Math.min(innerWidth - 120, innerHeight) <= 520) $("#help").prepend($("#viewer-language")); // a phone: the controls have no room
  // The text of an event; its team is a word of the language, too.
  const told = (event) => event.phrases.map(([text, values]) => say(text, values.team ? { ...values, team: say(values.team) } : values)).join("");

  // --- the matches

  const timelines = data.matches.map(() => null);

  // The timeline of a match, computed when the match is first shown.
  function timelineOf(number) {
    if (timelines[number]) return timelines[number];
    const match = data.matches[number], states = [match.start], steps = [null];
    const outputs = match.turns.map(({ probs, values }) => (probs ? { probs, values } : null)); // of policies, in state k
    for (const change of match.turns) {
      const before = states[states.length - 1];
      const moves = [...change.moves].map((letter) => "udlr".indexOf(letter.toLowerCase()));
      const grew = [...change.moves].map((letter) => letter !== letter.toLowerCase());
      const snakes = before.snakes.map((body, snake) => {
        if (moves[snake] < 0) return change.bodies[snake];
        const [row, column] = body[0], [right, down] = board.STEPS[moves[snake]];
        const head = [board.wrap(row + down, look.rows), board.wrap(column + right, look.columns)];
        return [head, ...(grew[snake] ? body : body.slice(0, -1))];
      });
      states.push({ turn: before.turn + 1, snakes, directions: change.directions || moves, beans: change.beans || before.beans });
      steps.push({ moves, grew, ate: change.ate || [], died: change.died || [], lunges: change.lunges || {} });
    }
    const last = states[states.length - 1];
    const { red, blue, events, boxed } = match;
    return (timelines[number] = { red, blue, events, boxed, states, steps, outputs, scores: [score(last, 0), score(last, 1)] });
  }

  // --- the position in the match

  // `time` is the current position, `shown` the drawn one: after a single step it glides to `time`.
  let current = 0, timeline = null, time = 0, shown = 0, playing = false, speed = 1, follow = null, camera = [0, 0];
  let frame = 0, lastTick = 0, cell = 0, ratio = 1, painted = "", turned = false, showPolicy = false;
  const end = () => timeline.states.length - 1;
  const turn = () => Math.floor(time + 1e-9);

  function show(number, at = 0, go = true) {
    if (!data.matches.length) return;
    current = board.wrap(number, data.matches.length);
    timeline = timelineOf(current);
    time = shown = Math.min(at, end());
    playing = go && end() > 0;
    $("#policy").disabled = !timeline.outputs.some(Boolean);
    nameMatch();
    listEvents();
    TEAMS.forEach((team) => { const name = $(`.team.${team} h2`); name.textContent = name.title = timeline[team]; });
    document.querySelectorAll("#list button").forEach((button, i) => {
      button.setAttribute("aria-current", String(i === current));
      if (i === current) button.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    $("#scrub").setAttribute("aria-valuemax", String(end()));
    bar.layOut(timeline, ratio);
    painted = "";
    wake();
  }

  function nameMatch() {
    const match = data.matches[current], about = [];
    if (match.seed !== undefined) about.push(say("match {match} of seed {seed}", match));
    if (match.date) about.push(match.date);
    document.title = [`${timeline.red} – ${timeline.blue}`, ...about, "Snakes 3v3"].join(" · ");
    document.querySelectorAll(".about-match").forEach((line) => { line.textContent = about.join(" · "); });
  }

  function seek(to) { time = Math.min(end(), Math.max(0, to)); if (Math.abs(time - shown) > 1.001) shown = time; wake(); }
  function step(by) { playing = false; seek(by > 0 ? turn() + 1 : Math.ceil(time - 1e-9) - 1); }
  function play(go = !playing) { playing = go; if (go && time >= end()) time = shown = 0; if (!go) shown = time; painted = ""; wake(); }
  function setSpeed(to) { speed = SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, to))]; painted = ""; wake(); }
  function setFollow(snake) { follow = follow === snake ? null : snake; painted = ""; wake(); }
  function jump(what, by) { // to the turn right before the event, so that the user sees it happen
    for (let k = by > 0 ? turn() + 2 : Math.ceil(time - 1e-9); k > 0 && k <= end(); k += by)
      if (timeline.steps[k][what].length) { time = shown = k - 1; return wake(); }
  }

  // --- the address: #match=3&turn=120 opens match 3 (from 1 on) at turn 120

  let linked = "", touched = false; // the address stays as it was until the user does something
  function followLink() {
    const words = new URLSearchParams(location.hash.slice(1)), number = Number(words.get("match") || current + 1);
    if (location.hash === linked || !(words.has("match") || words.has("turn"))) return false;
    if (!Number.isInteger(number) || number < 1 || number > data.matches.length) return false;
    show(number - 1, Math.max(0, (Number(words.get("turn")) || 0) - data.matches[number - 1].start.turn), false);
    return true;
  }

  function writeLink() { // while nothing moves: a link to this moment can be copied from the address
    const hash = `#match=${current + 1}&turn=${timeline.states[turn()].turn}`;
    if (hash === location.hash) return;
    linked = hash;
    try { history.replaceState(null, "", hash); } catch { linked = ""; } // not allowed inside some frames
  }

  // --- drawing; nothing is drawn while nothing moves

  function wake() { if (!frame) { lastTick = performance.now(); frame = requestAnimationFrame(tick); } }

  function tick(now) {
    frame = 0;
    const seconds = Math.min(0.1, Math.max(0, (now - lastTick) / 1000));
    lastTick = now;
    if (playing) {
      time = Math.min(end(), time + seconds * speed * TURNS_PER_SECOND);
      shown = time;
      if (time >= end()) { playing = false; painted = ""; }
    } else if (shown !== time) { // glide after a single step
      const left = time - shown, glide = seconds * 8;
      shown = Math.abs(left) > 1.001 || Math.abs(left) <= glide ? time : shown + Math.sign(left) * glide;
    }
    const settled = moveCamera(seconds);
    paint();
    if (playing || shown !== time || !settled) frame = requestAnimationFrame(tick);
    else if (touched) writeLink();
  }

  function moveCamera(seconds) {
    const head = follow === null ? null : board.headAt(timeline, follow, shown);
    const wanted = head ? [head[0] - look.columns / 2, head[1] - look.rows / 2] : follow === null ? [0, 0] : camera;
    const sizes = [look.columns, look.rows];
    let settled = true;
    camera = camera.map((at, axis) => {
      const way = board.nearest(wanted[axis] - at, sizes[axis]);
      if (Math.abs(way) < 0.01) return board.wrap(wanted[axis], sizes[axis]);
      settled = false;
      return board.wrap(at + way * Math.min(1, seconds * 9), sizes[axis]);
    });
    return settled;
  }

  function paint() {
    const context = $("#board").getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const now = turn(), state = timeline.states[now], options = { camera, follow, turned };
    const policy = timeline.outputs[now] || null, key = `${now} ${playing} ${speed} ${follow} ${showPolicy}`;
    board.draw(context, cell, timeline, shown, options);
    if (showPolicy && policy) drawPolicyArrows(context, cell, board, look, timeline, shown, policy.probs, options);
    bar.draw(shown);
    if (key === painted) return;
    painted = key;
    const lengths = TEAMS.map((_, team) => total(state, team));
    TEAMS.forEach((team, i) => { $(`.result .${team}`).textContent = score(state, i); });
    $(".turn b").textContent = `${state.turn} / ${timeline.states[end()].turn}`;
    $("#share i").style.width = `${(100 * lengths[0]) / Math.max(1, lengths[0] + lengths[1])}%`;
    document.querySelectorAll(".chip").forEach((chip, snake) => {
      const length = state.snakes[snake].length, gain = length - look.startLength;
      const value = policy ? policy.values[snake] : null, [points, worth] = chip.querySelectorAll("span");
      points.textContent = gain; // the gains of a team add up to its score
      points.classList.toggle("up", gain >= 0);
      worth.textContent = value === null ? "" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
      worth.hidden = value === null;
      chip.title = say("Follow snake {snake} (key {snake}): {length} cells long", { snake, length }) + (value === null ? "" : say("; value by its policy: {value}", { value }));
      chip.setAttribute("aria-pressed", String(follow === snake));
    });
    $("#play path").setAttribute("d", playing ? PAUSE : PLAY);
    $("#speed").textContent = `${speed}×`;
    $("#policy").setAttribute("aria-pressed", String(showPolicy));
    $("#scrub").setAttribute("aria-valuenow", String(now));
    markEvent(now);
    notice.show(timeline, now, (snake) => {
      const [row, column] = state.snakes[snake][0];
      return turned ? board.wrap(column - camera[0], look.columns) >= look.columns / 2 : board.wrap(row - camera[1], look.rows) >= look.rows / 2;
    });
    const over = now === end(), [red, blue] = timeline.scores, banner = $("#banner");
    banner.hidden = !over;
    banner.className = red === blue ? "" : red > blue ? "red" : "blue";
    banner.textContent = red === blue ? say("Draw, {red} : {blue}", { red, blue }) : say("{name} wins {red} : {blue}", { name: red > blue ? timeline.red : timeline.blue, red, blue });
  }

  const bar = makeScrubBar(look, board, $("#scrub"), $("#tip"), score, say, told), notice = makeDeathNotice($("#stage"), say, told);

  // --- the list of events; a click goes to the turn right before

  function listEvents() {
    $("#events-count").textContent = timeline.events.length;
    $("#events ol").replaceChildren(...timeline.events.map((event) => {
      const item = document.createElement("li"), button = document.createElement("button"), at = document.createElement("b");
      const text = document.createElement("span");
      at.textContent = timeline.states[event.turn].turn;
      text.textContent = told(event);
      button.className = `${event.kind} ${event.team}`;
      button.append(at, text);
      button.addEventListener("click", () => { play(false); time = shown = Math.max(0, event.turn - 1); painted = ""; wake(); });
      item.append(button);
      return item;
    }));
  }

  function markEvent(now) { // the last event up to this turn
    const buttons = [...document.querySelectorAll("#events button")];
    const last = timeline.events.filter((event) => event.turn <= now).length - 1;
    buttons.forEach((button, i) => button.setAttribute("aria-current", String(i === last)));
    const list = $("#events ol");
    if (last >= 0 && list.scrollHeight > list.clientHeight) list.scrollTop = buttons[last].offsetTop - list.clientHeight / 2;
  }

  function showEvents(on = !document.body.classList.contains("events")) {
    document.body.classList.toggle("events", on);
    $("#list-events").setAttribute("aria-pressed", String(on));
    fit();
  }

  // --- size: as large as the window allows

  function fit() {
    ratio = Math.min(3, window.devicePixelRatio || 1);
    const stage = $("#stage"), main = $("main"), rest = main.offsetHeight - stage.offsetHeight;
    const wide = stage.clientWidth, high = Math.max(150, window.innerHeight - rest - 2);
    const flat = Math.min(wide / look.columns, high / look.rows), upright = Math.min(wide / look.rows, high / look.columns);
    turned = upright > 1.1 * flat; // a phone in portrait: the board is turned by 90 degrees
    cell = Math.max(8, Math.floor((turned ? upright : flat) * ratio) / ratio);
    const canvas = $("#board"), [width, height] = turned ? [cell * look.rows, cell * look.columns] : [cell * look.columns, cell * look.rows];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    for (const id of ["score", "share", "scrub"]) document.getElementById(id).style.maxWidth = innerHeight > 520 ? `${Math.max(width, 680)}px` : "";
    $("#events").style.maxHeight = "";
    if (innerWidth > 900) $("#events").style.maxHeight = `${main.offsetHeight - 28}px`;
    if (timeline) { bar.layOut(timeline, ratio); wake(); }
  }

  // --- screenshot

  function picture() {
    const size = 48, strip = 72, canvas = document.createElement("canvas"), c = canvas.getContext("2d");
    canvas.width = size * look.columns;
    canvas.height = size * look.rows + strip;
    const state = timeline.states[turn()];
    c.fillStyle = board.rgb(look.strip);
    c.fillRect(0, 0, canvas.width, strip);
    c.textBaseline = "middle";
    c.font = "650 28px system-ui, sans-serif";
    const write = (text, x, align, colour) => { c.textAlign = align; c.fillStyle = board.rgb(colour); c.fillText(text, x, strip / 2, canvas.width * 0.34); };
    write(`${timeline.red}  ${score(state, 0)}`, 20, "left", look.teams[0]);
    write(`${score(state, 1)}  ${timeline.blue}`, canvas.width - 20, "right", look.teams[1]);
    write(say("turn {turn}", state), canvas.width / 2, "center", look.text);
    c.translate(0, strip);
    board.draw(c, size, timeline, shown, { camera, follow });
    return canvas;
  }

  function screenshot() {
    picture().toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${timeline.red}-${timeline.blue}-turn${turn()}`.replace(/[^\w.-]+/g, "_") + ".png";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }

  function fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else if (document.documentElement.requestFullscreen) document.documentElement.requestFullscreen().catch(() => {});
  }

  // --- input: keys, mouse, touch

  const actions = {
    play: () => play(), back: () => step(-1), forward: () => step(1),
    "next-death": () => jump("died", 1), "back-death": () => jump("died", -1), "next-bean": () => jump("ate", 1),
    slower: () => setSpeed(SPEEDS.indexOf(speed) - 1), faster: () => setSpeed(SPEEDS.indexOf(speed) + 1),
    follow: () => setFollow(follow === null ? 0 : follow === 5 ? 5 : follow + 1),
    policy: () => { showPolicy = !showPolicy && timeline.outputs.some(Boolean); painted = ""; wake(); },
    "list-events": () => showEvents(), "full-screen": fullScreen,
    "first-turn": () => { playing = false; seek(0); }, "last-turn": () => { playing = false; seek(end()); },
    "back-bean": () => jump("ate", -1), "next-match": () => show(current + 1), "back-match": () => show(current - 1),
    screenshot, ask: () => { if ($("#help").open) $("#help").close(); else $("#help").showModal(); },
  };
  for (const [id, act] of Object.entries(actions)) {
    const button = document.getElementById(id);
    keep(() => button.setAttribute("aria-label", button.title));
    button.addEventListener("click", act);
  }

  const keys = {
    " ": actions.play, ArrowLeft: actions.back, ArrowRight: actions.forward, ",": actions.back, ".": actions.forward,
    "+": actions.faster, "=": actions.faster, "-": actions.slower,
    x: actions["next-death"], X: actions["back-death"], b: actions["next-bean"], B: actions["back-bean"],
    Home: actions["first-turn"], End: actions["last-turn"], n: actions["next-match"], p: actions["back-match"],
    o: actions.policy, t: actions.policy, e: actions["list-events"], c: screenshot, f: fullScreen, "?": actions.ask, F1: actions.ask,
    Escape: () => setFollow(follow),
  };
  for (let snake = 0; snake < 6; snake++) keys[snake] = () => setFollow(snake);
  addEventListener("keydown", (event) => {
    if (!timeline || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keys[event.key];
    if (!act || ($("#help").open && act !== actions.ask)) return;
    event.preventDefault();
    act();
  });
  // A button with the focus must not react to the space key as well.
  addEventListener("keyup", (event) => { if (event.key === " " && event.target instanceof HTMLButtonElement) event.preventDefault(); });

  $("#board").addEventListener("click", (event) => {
    const [x, y] = turned ? [event.offsetY, look.rows * cell - event.offsetX] : [event.offsetX, event.offsetY];
    const column = Math.floor(board.wrap(x / cell + camera[0], look.columns));
    const row = Math.floor(board.wrap(y / cell + camera[1], look.rows));
    const snake = timeline.states[turn()].snakes.findIndex((body) => body.some(([r, c]) => r === row && c === column));
    if (snake < 0) play(); else setFollow(snake);
  });
  const scrub = (event) => {
    playing = false;
    time = shown = bar.turnAt(event);
    painted = "";
    wake();
  };
  $("#scrub").addEventListener("pointerdown", (event) => { event.currentTarget.setPointerCapture(event.pointerId); scrub(event); });
  $("#scrub").addEventListener("pointermove", (event) => { if (event.buttons) scrub(event); });
  $("#help").addEventListener("click", (event) => { if (event.target === event.currentTarget) event.currentTarget.close(); });

  // --- elements that are made once

  function makeChips() {
    look.snakes.forEach((_, snake) => {
      const chip = document.createElement("button"), canvas = document.createElement("canvas"), gain = document.createElement("span");
      const value = document.createElement("span");
      chip.className = "chip";
      keep(() => chip.setAttribute("aria-label", say("Follow snake {snake}", { snake })));
      [gain.className, value.className] = ["gain", "value"];
      canvas.width = 144; canvas.height = 72;
      const context = canvas.getContext("2d");
      context.translate(0, 12);
      board.sample(context, 48, snake); // the snake itself: colour, mark and number
      chip.append(canvas, gain, value);
      chip.addEventListener("click", () => setFollow(snake));
      $(`.team.${TEAMS[snake < 3 ? 0 : 1]} .chips`).append(chip);
    });
  }

  function makeList() {
    if (data.matches.length < 2 || data.extra) return; // the markup on top of the page lets the user choose a match
    $("#list").hidden = false;
    data.matches.forEach((match, number) => {
      const timeline = timelineOf(number), item = document.createElement("li"), button = document.createElement("button");
      TEAMS.forEach((team, i) => {
        const name = document.createElement("span"), points = document.createElement("b");
        name.className = points.className = team + (timeline.scores[i] < timeline.scores[1 - i] ? " lost" : "");
        name.textContent = match[team];
        points.textContent = timeline.scores[i];
        button.append(name, points);
      });
      button.addEventListener("click", () => show(number));
      item.append(button);
      $("#list").append(item);
    });
  }

  document.documentElement.style.setProperty("--red", board.rgb(look.teams[0]));
  document.documentElement.style.setProperty("--blue", board.rgb(look.teams[1]));
  makeChips();
  makeList();
  // For tests and for users of the browser console.
  window.snakes = {
    matches: data.matches.length,
    state: (k, number = current) => copy(timelineOf(number).states[k]),
    events: (number = current) => timelineOf(number).events.map((event) => ({ turn: event.turn, kind: event.kind, team: event.team, text: told(event) })),
    output: (k, number = current) => copy(timelineOf(number).outputs[k] || null),
    shown: () => ({ match: current, turn: turn(), time: shown, last: end(), playing, speed, follow, turned, policy: showPolicy }),
    show, seek, play, picture, language,
  };
  for (const id of ["next-match", "back-match"]) document.getElementById(id).hidden = data.matches.length < 2;
  if (!followLink()) show(0, data.matches.length ? Math.max(0, data.turn - data.matches[0].start.turn) : 0, data.turn === 0);
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => { touched = true; }, { capture: true });
  addEventListener("hashchange", followLink);
  keep(() => { if (timeline) { nameMatch(); listEvents(); painted = ""; wake(); } });
  fit();
  // The list of events is open where it does not make the board smaller.
  if (innerWidth > 900 && $("#stage").clientWidth - look.columns * cell > 300) showEvents(true);
  addEventListener("resize", fit);
})();
