// Everything that is drawn at one tick, worked out from the run and the tick alone.

/** The instant at the end of `tick`; `blank` is what there is before the first. */
function viewAt(run, tick) {
  if (run.length === 0) return blankView(run);
  const states = new Map();
  run.requests.forEach((_, request) => {
    if (run.where[request][tick] !== ABSENT) states.set(request, run.stateAt(request, tick));
  });
  const blocks = run.blocksAt(tick);
  const before = tick > 0 ? run.blocksAt(tick - 1) : null;
  const view = {
    run,
    tick,
    states,
    settings: run.settingsAt(tick),
    events: run.eventsAt(tick),
    queue: queueOf(run, states, tick),
    lanes: lanesOf(run, states, tick),
    finished: finishedOf(run, states, tick),
    batch: run.batch.at(tick),
    blocks,
    changedBlocks: changedBlocks(blocks, before),
    narration: run.narration(tick),
  };
  view.hash = hashOf(view);
  return view;
}

function blankView(run) {
  return {
    run, tick: 0, states: new Map(), settings: run.settings[0][1], events: NOTHING,
    queue: { shown: NOTHING, total: 0 }, lanes: new Array(run.mostLanes).fill(-1), finished: NOTHING, batch: NOTHING,
    blocks: run.blocksAt(-1), changedBlocks: new Set(), narration: { total: 0, lines: NOTHING }, hash: "00000000",
  };
}

function queueOf(run, states, tick) {
  let total = 0;
  for (const state of states.values()) if (state.where === WAITING || state.where === PREEMPTED) total += 1;
  return { shown: run.queue.at(tick), total };
}

function lanesOf(run, states, tick) {
  const lanes = new Array(Math.max(run.settingsAt(tick).max_num_seqs, 1)).fill(-1);
  for (const [request, state] of states) {
    if (state.lane < 0) continue;
    while (lanes.length <= state.lane) lanes.push(-1);
    lanes[state.lane] = request;
  }
  return lanes;
}

/** Those that have ended, the latest first. */
function finishedOf(run, states, tick) {
  const ended = [];
  for (const event of run.events) {
    if (event.tick > tick) break;
    if (event.name !== "finished" && event.name !== "refused") continue;
    if (states.get(event.request)?.where === FINISHED && !ended.includes(event.request)) ended.push(event.request);
  }
  return ended.reverse();
}

function cellCode(cell) {
  const look = (cell.kind * 9 + cell.fill) * 9 + cell.split;
  return (look * 2 + (cell.published ? 1 : 0)) * 4096 + ownersCode(cell.owners);
}

function ownersCode(owners) {
  let code = owners.length;
  for (const owner of owners) code = (code * 31 + owner + 1) % 4096;
  return code;
}

const UNUSED_CODE = cellCode(unusedBlock(false));

function changedBlocks(now, before) {
  const changed = new Set();
  now.forEach((cell, block) => {
    const was = before ? cellCode(before[block]) : UNUSED_CODE;
    if (cellCode(cell) !== was) changed.add(block);
  });
  return changed;
}

function hashOf(view) {
  const numbers = [view.tick, ...view.queue.shown, view.queue.total, -1, ...view.lanes, -1, ...view.batch, -1];
  numbers.push(...view.finished, view.narration.total);
  for (const state of view.states.values()) {
    numbers.push(
      state.request, state.where, state.lane, state.tokens, state.computed, state.scheduled, state.cached, state.loaded,
      state.slice, state.saved, state.waited, state.level,
    );
  }
  for (const cell of view.blocks) numbers.push(cellCode(cell));
  return hashNumbers(numbers);
}

/** The last thing that happened to a request in this tick, as the word that tints its card. */
function newsOf(view, request) {
  let news = "";
  for (const event of view.events) {
    if (event.request !== request) continue;
    if (event.name === "arrived" || event.name === "admitted" || event.name === "preempted") news = event.name;
    if (event.name === "finished" || event.name === "refused") news = event.name;
  }
  return news;
}
