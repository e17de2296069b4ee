// The scrub bar: the lengths of both teams over the match, deaths, the stretch before each without a safe move, the
// decisive turn, the present turn, and a tooltip under the mouse.
"use strict";

// `say` and `told` give a text and an event in the language of the page.
function makeScrubBar(look, board, element, tip, score, say, told) {
  const DECISIVE = "#ffe45c"; // a colour that no snake has
  const NEAR = 5; // pixels: how far from the mouse an event may be that the tooltip tells
  const line = element.querySelector("canvas"), curves = document.createElement("canvas");
  const total = (state, team) => state.snakes.slice(3 * team, 3 * team + 3).reduce((sum, body) => sum + body.length, 0);
  let timeline = null, ratio = 1;
  const end = () => timeline.states.length - 1;

  // Draw the curves of a match; the rest is drawn on top of them.
  function layOut(of, pixelRatio) {
    [timeline, ratio] = [of, pixelRatio];
    const width = line.clientWidth, height = line.clientHeight;
    line.width = curves.width = Math.max(1, Math.round(width * ratio));
    line.height = curves.height = Math.max(1, Math.round(height * ratio));
    const c = curves.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const values = [0, 1].map((team) => timeline.states.map((state) => total(state, team)));
    const top = Math.max(20, ...values[0], ...values[1]), low = height - 9, high = 12;
    const x = (k) => (width * k) / Math.max(1, end()), y = (v) => low - ((low - high) * v) / top;
    const under = values.map((of) => {
      const area = new Path2D();
      of.forEach((v, k) => area.lineTo(x(k), y(v)));
      area.lineTo(width, height);
      area.lineTo(0, height);
      return area;
    });
    const lead = new Path2D();
    values[0].forEach((v, k) => lead.lineTo(x(k), y(v)));
    values[1].forEach((_, k, of) => lead.lineTo(x(end() - k), y(of[end() - k])));
    under.forEach((area, team) => { // a team's lead: the area under its curve and above the other's
      c.save();
      c.clip(area);
      c.fillStyle = board.rgb(look.teams[team], 0.34);
      c.fill(lead, "evenodd");
      c.restore();
    });
    values.forEach((of, team) => {
      c.beginPath();
      of.forEach((v, k) => c.lineTo(x(k), y(v)));
      c.strokeStyle = board.rgb(look.teams[team]);
      c.lineWidth = 2;
      c.lineJoin = "round";
      c.stroke();
    });
    for (const { snake, since, turn } of timeline.boxed) { // a beam that ends at the death
      c.fillStyle = board.rgb(look.snakes[snake]);
      c.fillRect(x(since), snake < 3 ? 0 : height - 3, Math.max(2, x(turn) - x(since)), 3);
    }
    timeline.steps.forEach((step, k) => {
      for (const snake of step ? step.died : []) { // red above, blue below
        const down = snake < 3 ? 1 : -1, from = snake < 3 ? 2 : height - 2;
        c.fillStyle = board.rgb(look.snakes[snake]);
        c.beginPath();
        c.moveTo(x(k) - 3, from); c.lineTo(x(k) + 3, from); c.lineTo(x(k), from + 6 * down);
        c.fill();
      }
    });
  }

  function draw(time) {
    const c = line.getContext("2d"), at = (line.width * time) / Math.max(1, end());
    c.clearRect(0, 0, line.width, line.height);
    c.globalAlpha = 0.38;
    c.drawImage(curves, 0, 0);
    c.globalAlpha = 1;
    if (at >= 1) c.drawImage(curves, 0, 0, at, line.height, 0, 0, at, line.height);
    for (const { turn } of timeline.events.filter((event) => event.kind === "decisive")) markDecisive(c, turn);
    c.fillStyle = "#fff";
    c.fillRect(Math.min(Math.max(0, at - ratio), line.width - 2 * ratio), 0, 2 * ratio, line.height);
  }

  function markDecisive(c, turn) { // a dashed line with a diamond in its middle
    const at = (line.width * turn) / Math.max(1, end()), middle = line.height / 2, size = 5 * ratio;
    c.save();
    c.strokeStyle = c.fillStyle = DECISIVE;
    c.lineWidth = 1.5 * ratio;
    c.setLineDash([3 * ratio, 3 * ratio]);
    c.beginPath();
    c.moveTo(at, 0); c.lineTo(at, line.height);
    c.stroke();
    c.beginPath();
    c.moveTo(at, middle - size); c.lineTo(at + size, middle); c.lineTo(at, middle + size); c.lineTo(at - size, middle);
    c.fill();
    c.restore();
  }

  function turnAt(event) {
    const box = element.getBoundingClientRect();
    return Math.round(Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * end());
  }

  element.addEventListener("pointermove", (event) => {
    if (!timeline || event.pointerType === "touch") return;
    const turn = turnAt(event), state = timeline.states[turn], box = element.getBoundingClientRect();
    const near = timeline.events.filter((each) => (Math.abs(each.turn - turn) * box.width) / Math.max(1, end()) <= NEAR);
    const lines = [`${say("turn {turn}", state)}: ${score(state, 0)} : ${score(state, 1)}`, ...near.map(told)];
    tip.replaceChildren(...lines.map((text) => Object.assign(document.createElement("div"), { textContent: text })));
    tip.hidden = false;
    const width = tip.offsetWidth, middle = event.clientX - width / 2;
    tip.style.left = `${Math.min(Math.max(4, middle), innerWidth - width - 4)}px`;
    tip.style.top = `${Math.max(4, box.top - tip.offsetHeight - 8)}px`;
  });
  element.addEventListener("pointerleave", () => { tip.hidden = true; });

  return { layOut, draw, turnAt };
}
