// The notice on the board: which snakes have no safe move any more, and of what the last ones died.
"use strict";

// `say` and `told` give a text and an event in the language of the page.
function makeDeathNotice(stage, say, told) {
  const TURNS = 3, LINES = 3; // how long a death is told, and how many lines there can be
  const notice = document.createElement("div");
  notice.id = "notice";
  notice.hidden = true;
  stage.append(notice);

  function linesAt(timeline, now) {
    const number = (index) => timeline.states[index].turn, team = (snake) => (snake < 3 ? "red" : "blue");
    const lost = timeline.boxed.filter(({ since, turn }) => since <= now && now < turn).map(({ snake, since }) => ({
      snake, team: team(snake), text: say("snake {snake} ({team}) is already lost: no safe move since turn {turn}", { snake, team: say(team(snake)), turn: number(since) }),
    }));
    const died = timeline.events.filter(({ kind, turn }) => kind === "death" && turn <= now && now < turn + TURNS)
      .map((event) => ({ team: event.team, text: `${say("turn {turn}", { turn: number(event.turn) })}: ${told(event)}` }));
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
