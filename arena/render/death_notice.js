// The notice on the board: which snakes have no safe move any more, and of what the last ones died.
"use strict";

function makeDeathNotice(stage) {
  const TURNS = 3, LINES = 3; // how long a death is told, and how many lines there can be
  const notice = document.createElement("div");
  notice.id = "notice";
  notice.hidden = true;
  stage.append(notice);

  function linesAt(timeline, now) {
    const number = (index) => timeline.states[index].turn, team = (snake) => (snake < 3 ? "red" : "blue");
    const lost = timeline.boxed.filter(({ since, turn }) => since <= now && now < turn).map(({ snake, since }) => ({
      snake, team: team(snake), text: `snake ${snake} (${team(snake)}) is already lost: no safe move since turn ${number(since)}`,
    }));
    const died = timeline.events.filter(({ kind, turn }) => kind === "death" && turn <= now && now < turn + TURNS)
      .map((event) => ({ team: event.team, text: `turn ${number(event.turn)}: ${event.text}` }));
    return [...died, ...lost].slice(-LINES);
  }

  // isLow: whether a snake's head is in the lower half of the board, where the notice would hide it.
  function show(timeline, now, isLow) {
    const lines = linesAt(timeline, now);
    notice.hidden = !lines.length;
    notice.classList.toggle("top", lines.some(({ snake }) => snake !== undefined && isLow(snake)));
    notice.replaceChildren(...lines.map(({ team, text }) => Object.assign(document.createElement("div"), { className: team, textContent: text })));
  }

  return { show };
}
