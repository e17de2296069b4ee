// The replay file of a match (arena/replay.py) that was played in the browser: its text, as Python would write it.
"use strict";

// `match` has seed and number as texts, since they may be too large for JavaScript's numbers, the names red and blue, the
// date, and the states and steps of its timeline; a step has the `actions` that were asked for.
function replayFile({ seed, number, red, blue, date, states, steps }) {
  const FORMAT = 2, RULES = 1;
  const numbers = `[${BigInt(seed)},${BigInt(number)}]`;
  const lines = [
    `{"type":"header","format":${FORMAT},"rules":${RULES},"seed":${BigInt(seed)},"match":${BigInt(number)},` +
      `"red":${JSON.stringify(red)},"blue":${JSON.stringify(blue)},"date":"${date}"}`,
    JSON.stringify({ type: "start", ...states[0], check: check(numbers, states[0]) }),
  ];
  for (let k = 1; k < states.length; k++) {
    const { actions, ate, died } = steps[k], [before, after] = [states[k - 1], states[k]];
    const beans = after.beans.slice(before.beans.length - ate.length); // old beans come first, in their old order
    const line = { type: "turn", turn: after.turn, actions };
    if (after.directions.some((direction, snake) => direction !== actions[snake])) line.directions = after.directions;
    for (const [key, list] of Object.entries({ ate, died, beans })) if (list.length) line[key] = list;
    lines.push(JSON.stringify({ ...line, check: check(JSON.stringify(actions), after) }));
  }
  lines.push(JSON.stringify({ type: "result", ...result(states[states.length - 1]) }));
  return lines.join("\n") + "\n";

  function result(state) {
    const lengths = state.snakes.map((body) => body.length);
    const [red, blue] = [0, 1].map((team) => lengths.slice(rules.TEAM * team, rules.TEAM * (team + 1))
      .reduce((sum, length) => sum + length - rules.START_LENGTH, 0));
    const winner = red === blue ? "draw" : red > blue ? "red" : "blue";
    return { turns: state.turn, lengths, red_score: red, blue_score: blue, winner };
  }

  function check(numbers, state) {
    let crc = ~0; // CRC-32; the text is ASCII
    for (const letter of `[${numbers},${JSON.stringify(state)}]`) {
      crc ^= letter.charCodeAt(0);
      for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ((~crc) >>> 0).toString(16).padStart(8, "0");
  }
}
