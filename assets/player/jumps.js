// The events one can jump to, by kind.

const JUMPS = {
  decision: { label: "decision", names: ["admitted", "preempted", "refused", "config", "fault"] },
  preemption: { label: "preemption", names: ["preempted"] },
  hit: { label: "cache hit", names: ["hit", "loaded"] },
  admission: { label: "admission", names: ["admitted"] },
  finish: { label: "finish", names: ["finished"] },
  arrival: { label: "arrival", names: ["arrived"] },
};

/** The next tick after `tick` in which such an event happens; -1 if there is none. */
function nextTick(run, kind, tick) {
  const { names } = JUMPS[kind];
  return run.events.find((event) => event.tick > tick && names.includes(event.name))?.tick ?? -1;
}

function previousTick(run, kind, tick) {
  const { names } = JUMPS[kind];
  return run.events.findLast((event) => event.tick < tick && names.includes(event.name))?.tick ?? -1;
}
