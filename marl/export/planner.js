// Looks ahead in a browser, for one match and with a clock. Needs rules.js, searches.js and policy.js.
// Stage 1 gives a value to every action of every own snake; stage 2 compares all combinations of their two best actions.
// Simpler than marl/planning/planner.py: all six snakes draw from the policy. tests/helpers/drawn_plans.py is the reference.
"use strict";

// scale: the weights of the foes' growth and of values, from marl/planning/value_scale.py.
function makePlanner(policy, scale) {
  const { SNAKES, START_LENGTH, TEAM, TURNS } = rules;
  const DISCOUNT = 0.97, PRIOR = 0.1; // see marl/planning/planner.py
  const DEAD_END = 1; // see marl/planning/planner.py
  const HORIZON = 4; // turns of a rollout
  const MOST_ROLLOUTS = 64; // of a stage
  const CANDIDATES = 2 ** TEAM, MOVES = 4, PLAN_SEED = 0x706c616en << 31n;
  const SLOT_ACTION = 216; // + snake: as in arena/rng.py
  const ALL = Array.from({ length: SNAKES }, (_, snake) => snake);
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const bestFirst = (numbers) => [...numbers.keys()].sort((a, b) => numbers[b] - numbers[a]);
  const moveToBoard = Array.from({ length: 8 }, (_, orientation) =>
    [0, 1, 2, 3].map((local) => [0, 1, 2, 3].find((move) => moveToLocal(orientation, move) === local)));

  // Plans for a team of match `number` of `seed`: {moves: of its three snakes, or null without time; values: [3][4];
  // rollouts: played in each stage}. Takes `milliseconds`, or plays exactly `rollouts` in each stage.
  function plan(match, team, { seed, number, rollouts = null, turns = HORIZON, milliseconds = Infinity }) {
    const deadline = performance.now() + milliseconds, own = ALL.slice(team * TEAM, team * TEAM + TEAM);
    const root = evaluateAll(match, ALL);
    const losses = deadEndLosses(match, own);
    const prior = own.map((snake, i) => logProbs(policy.boardLogits(match, snake, root[snake])).map(
      (p, move) => PRIOR * p - DEAD_END * losses[i][move]));
    const ranked = prior.map((numbers) => bestFirst(numbers).slice(0, 3)); // legal actions, best first
    const turn = BigInt(number) * BigInt(TURNS) + BigInt(match.turn), most = rollouts ?? MOST_ROLLOUTS;
    const planSeed = PLAN_SEED ^ (BigInt(seed) & 0x7fffffffn);
    const playStage = (stage, candidates, until) => {
      const key = (rollout) => rules.matchKey(planSeed, (2n * turn + BigInt(stage)) * BigInt(most) + BigInt(rollout));
      return playOut(match, root, candidates, own, key, most, turns, until);
    };

    const now = performance.now();
    if (now >= deadline) return { moves: null, values: null, rollouts: [0, 0] };
    const first = playStage(0, deviations(ranked), now + (deadline - now) / 2);
    const values = prior.map((numbers, i) => numbers.map((p, move) => {
      const rank = ranked[i].indexOf(move);
      return rank < 0 ? -Infinity : p + first.worth[rank ? 2 * i + rank : 0];
    }));
    const best = values.map((numbers) => bestFirst(numbers).slice(0, 2)), combinations = combined(best);
    if (performance.now() >= deadline) return { moves: best.map(([move]) => move), values, rollouts: [first.played, 0] };
    const second = playStage(1, combinations, deadline);
    const total = combinations.map((moves, c) => second.worth[c] + sum(moves.map((move, i) => prior[i][move])));
    return { moves: combinations[total.indexOf(Math.max(...total))], values, rollouts: [first.played, second.played] };
  }

  // The length [snakes][4] that each of these snakes loses by each move into a dead end; 0 if it is none.
  function deadEndLosses(match, own) {
    searches.read(match);
    return own.map((snake) => [0, 1, 2, 3].map((move) =>
      (searches.isDeadEnd(snake, move) ? match.snakes[snake].length - START_LENGTH : 0)));
  }

  // Actions [C][3]: the best of all snakes; then each snake's second and third, mates unchanged.
  function deviations(ranked) {
    const candidates = Array.from({ length: CANDIDATES }, () => ranked.map(([best]) => best));
    ranked.forEach((moves, i) => [1, 2].forEach((rank) => { candidates[2 * i + rank][i] = moves[rank]; }));
    return candidates;
  }

  // Actions [C][3]: all combinations of the snakes' two best actions [3][2]; the last snake's change first.
  function combined(best) {
    return Array.from({ length: CANDIDATES }, (_, c) => best.map((two, i) => two[(c >> (TEAM - 1 - i)) & 1]));
  }

  // The mean worth of each candidate's first actions over the rollouts that fit until the deadline: 1 to `most`.
  function playOut(match, root, candidates, own, key, most, turns, deadline) {
    const worth = Array(CANDIDATES).fill(0);
    let played = 0, longest = 0;
    for (let now = performance.now(); played < 1 || (played < most && now + longest < deadline); played++) {
      playRollout({ ...match, key: key(played) }, root, candidates, own, turns, deadline).forEach((w, c) => { worth[c] += w; });
      const began = now;
      now = performance.now();
      longest = Math.max(longest, now - began);
    }
    return { played, worth: worth.map((w) => w / played) };
  }

  // The worth of each candidate in one rollout. All candidates draw the same random numbers and play the same number of
  // turns: if the time is up, the value head judges the positions reached.
  function playRollout(match, root, candidates, own, turns, deadline) {
    const worth = Array(CANDIDATES).fill(0);
    const simulated = candidates.map(() => ({ match, evaluations: root }));
    let discount = 1, now = performance.now();
    for (let turn = 0; turn < turns; turn++) {
      const near = [root]; // the candidates differ little
      simulated.forEach((sim, c) => {
        if (sim.match.over) return;
        const moves = ALL.map((snake) => drawMove(sim.match, snake, sim.evaluations[snake]));
        if (turn === 0) own.forEach((snake, i) => { moves[snake] = candidates[c][i]; });
        const { match: next, reward } = rules.playTurn(sim.match, moves);
        const mine = sum(own.map((snake) => reward[snake]));
        worth[c] += discount * (mine - scale.foes * (sum(reward) - mine));
        sim.match = next;
        sim.evaluations = next.over ? null : evaluateAll(next, turn + 1 < turns ? ALL : own, near);
        if (sim.evaluations) near.push(sim.evaluations);
      });
      discount *= DISCOUNT;
      const began = now;
      now = performance.now();
      if (2 * now - began > deadline) break; // one more turn like this one does not fit
    }
    simulated.forEach(({ match: { over }, evaluations }, c) => {
      if (!over && root[0].outputs.length > MOVES)
        worth[c] += discount * scale.leaf * sum(own.map((snake) => evaluations[snake].outputs[MOVES]));
    });
    return worth;
  }

  function evaluateAll(match, snakes, near = []) {
    const evaluations = [];
    for (const snake of snakes) evaluations[snake] = policy.evaluate(match, snake, near.map((each) => each[snake]));
    return evaluations;
  }

  function logProbs(logits) {
    const best = Math.max(...logits), total = Math.log(sum(logits.map((logit) => Math.exp(logit - best))));
    return logits.map((logit) => logit - best - total);
  }

  // An action on the board, drawn from the policy; never the reversal.
  function drawMove(match, snake, { outputs, orientation }) {
    const masked = moveToLocal(orientation, match.directions[snake]) ^ 1;
    let best = -Infinity, total = 0, passed = 0, local = 0;
    for (let i = 0; i < MOVES; i++) if (i !== masked) best = Math.max(best, outputs[i]);
    for (let i = 0; i < MOVES; i++) if (i !== masked) total += Math.exp(outputs[i] - best);
    const drawn = (rules.draw(match.key, match.turn, SLOT_ACTION + snake) / 2 ** 32) * total;
    for (; local < MOVES; local++) {
      if (local !== masked) passed += Math.exp(outputs[local] - best);
      if (drawn < passed) break;
    }
    if (local === MOVES || local === masked) local = masked ^ 1;
    return moveToBoard[orientation][local];
  }

  return { plan, deadEndLosses };
}
