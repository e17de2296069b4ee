// The levels of the team that plays against the human, weakest first. A fraction `noise` of its moves is random, as for
// opponents with noise in training; the last one looks ahead. Needs rules.js.
"use strict";

const { LEVELS, FULL, AHEAD, soften } = (() => {
  const SLOT_POLICY = 64, SLOT_NOISE = 80; // + snake: as in arena/rng.py
  const LEVELS = [
    { name: "random", noise: 1 },
    { name: "beginner", noise: 0.5 },
    { name: "easy", noise: 0.25 },
    { name: "medium", noise: 0.1 },
    { name: "hard", noise: 0.05 },
    { name: "full strength", noise: 0 },
    { name: "thinks ahead", noise: 0 },
  ];

  // The move, or with probability `noise` a random one that is no reversal. It follows from the match's key and the turn.
  function soften(match, snake, move, noise) {
    if (rules.draw(match.key, match.turn, SLOT_NOISE + snake) >= noise * 2 ** 32) return move;
    const reversal = match.directions[snake] ^ 1, pick = rules.drawBelow(match.key, match.turn, SLOT_POLICY + snake, 3);
    return pick < reversal ? pick : pick + 1;
  }

  return { LEVELS, FULL: LEVELS.length - 2, AHEAD: LEVELS.length - 1, soften };
})();
