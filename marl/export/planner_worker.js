// Planning beside the page: planner.js in a Web Worker, so that the page stays smooth. The worker is made from the
// page's own scripts: the page stays one file that works without a server.
"use strict";

// The worker's part: gets the policy once, then positions, and answers each with a plan.
function servePlans() {
  let planner = null;
  onmessage = ({ data: { policy, id, match, team, options } }) => {
    if (policy) planner = makePlanner(makePolicy(policy), policy.scale);
    else postMessage({ id, ...planner.plan(match, team, options) });
  };
}

// The page's part. Only the position asked for last counts. `changed` is called after an answer or a failure.
function makePlannerWorker(policy, changed) {
  const PATIENCE = 1000, STARTING = 4000; // milliseconds beyond the time of a plan: then the policy's moves are played
  const LATE = "Thinking ahead took too long: the policy's own moves were played.";
  let worker = null, address = null, asked = null, busy = false, ready = false, failed = false, note = "", count = 0;

  function start() {
    try {
      const scripts = ["rules", "searches", "policy", "planner"].map((name) => document.getElementById(`${name}_script`).textContent);
      address = URL.createObjectURL(new Blob([...scripts, `(${servePlans})();`], { type: "text/javascript" }));
      worker = new Worker(address);
      worker.onmessage = ({ data }) => answered(data);
      worker.onerror = (event) => fail(event.message);
      worker.postMessage({ policy });
    } catch (error) {
      fail(error.message);
    }
  }

  function end() {
    if (worker) worker.terminate();
    if (address) URL.revokeObjectURL(address);
    [worker, address, asked, busy, ready] = [null, null, null, false, false];
  }

  function fail(reason) {
    end();
    failed = true;
    note = `Thinking ahead failed (${reason || "the worker did not start"}): the policy's own moves are played.`;
    changed();
  }

  function send() {
    busy = true;
    worker.postMessage({ id: asked.id, match: asked.match, team: asked.team, options: asked.options });
  }

  function answered({ id, ...plan }) {
    [busy, ready] = [false, true];
    if (!asked) return;
    if (asked.id !== id) return send();
    asked.plan = plan;
    note = plan.moves ? "" : LATE;
    changed();
  }

  return {
    // Plan for a team; options are those of planner.js. After a failure nothing is planned until stop().
    ask(match, team, options) {
      if (failed) return;
      if (!worker) start();
      if (!worker) return;
      const due = performance.now() + options.milliseconds + (ready ? PATIENCE : STARTING);
      asked = { id: ++count, match, team, options, plan: null, due };
      if (!busy) send();
    },
    // Whether the plan of this position may still come.
    awaited: (match) => Boolean(asked && asked.match === match && !asked.plan && performance.now() < asked.due),
    // The plan for a team in this position, or null.
    plan(match, team) {
      if (!asked || asked.match !== match || asked.team !== team) return null;
      if (!asked.plan && performance.now() >= asked.due) note = LATE;
      return asked.plan;
    },
    // What the user should know; empty if all is well.
    note: () => note,
    stop() {
      end();
      [failed, note] = [false, ""];
    },
  };
}
