// This tick on the model: the token budget as one bar, then a row for each lane.

const LETTER_WIDTH = 6.8;
const RING_WIDTH = 68;
const NOTE_WIDTH = 56;

class Budget {
  constructor(stage) {
    this.stage = stage;
    this.node = el("div", { class: "budget" });
    this.rest = el("span", { class: "rest" });
    this.segments = new KeyedChildren(this.node, (request) => this.make(request));
    this.node.append(this.rest);
  }

  make(request) {
    const node = el("span", { class: "segment", click: () => this.stage.toggleSelection(request) });
    const part = { node, label: el("b") };
    node.append(part.label);
    this.stage.tip.on(node, () => requestFacts(this.stage.view, request));
    return part;
  }

  draw(view) {
    const budget = view.settings.max_num_batched_tokens;
    const used = view.batch.reduce((sum, request) => sum + view.states.get(request).scheduled, 0);
    const scale = Math.max(budget, used, 1);
    const width = this.width ?? 400;
    this.segments.show(view.batch, (part, request) => {
      const state = view.states.get(request);
      const share = state.scheduled / scale;
      setAttr(part.node, "data-kind", state.decodes ? "generated" : "computed");
      setAttr(part.node, "data-spot", this.stage.spot(request));
      setStyle(part.node, "flex-basis", `${(share * 100).toFixed(3)}%`);
      setText(part.label, segmentLabel(view.run.requests[request], state, (share * width) / this.stage.teach.type));
    });
    this.node.append(this.rest);
    const free = budget - used;
    this.rest.hidden = free <= 0;
    setText(this.rest, free > 0 && (free / scale) * width > 56 ? `${free} free` : "");
    setAttr(this.node, "data-over", free < 0 ? "" : null);
    setStyle(this.node, "--limit", `${((budget / scale) * 100).toFixed(2)}%`);
    return { used, budget };
  }
}

/** What chunk control has set for this tick; "" where nothing is steered. */
function steeredNote(settings, isShort) {
  if (!settings.enable_chunked_prefill || (settings.chunk_control ?? "fixed") === "fixed") return "";
  const how = settings.chunk_control === "ramp" ? "ramp" : "adaptive";
  if (settings.chunk_moves === "budget") return ` (${how})`;
  return isShort ? ` · chunk ${settings.chunk_size}` : ` · chunk size ${settings.chunk_size} (${how})`;
}

function segmentLabel(facts, state, width) {
  const full = state.decodes ? facts.id : `${facts.id} · chunk of ${state.scheduled}`;
  if (width > full.length * 7 + 12) return full;
  if (width > facts.id.length * 7 + 12) return facts.id;
  return width > facts.label.length * 7 + 3 ? facts.label : "";
}

class Lanes {
  constructor(stage) {
    this.stage = stage;
    this.budget = new Budget(stage);
    this.count = el("span", { class: "count" });
    this.list = el("ol", { class: "lanes", "aria-label": "Lanes" });
    this.rows = new KeyedChildren(this.list, (lane) => this.make(lane));
    this.node = el("section", { class: "panel tick" }, heading("This tick on the model", this.count), this.budget.node, this.list);
  }

  make(lane) {
    const row = { lane, node: el("li", { class: "lane" }), request: -1 };
    row.name = el("button", { class: "name", type: "button" });
    row.bar = new Bar();
    row.track = el("span", { class: "track-slot" }, row.bar.node);
    row.slice = new SliceRing();
    row.words = el("span", { class: "words" }, (row.before = el("span")), (row.fresh = el("mark")));
    row.note = el("span", { class: "note" });
    row.node.append(row.name, row.track, row.slice.node, row.words, row.note);
    row.node.addEventListener("click", () => row.request >= 0 && this.stage.toggleSelection(row.request));
    this.stage.tip.on(row.node, () => (row.request >= 0 ? requestFacts(this.stage.view, row.request) : null));
    return row;
  }

  layout() {
    this.budget.width = this.budget.node.clientWidth;
    const width = this.list.clientWidth - 24;
    const name = nameWidth(this.stage);
    setStyle(this.list, "--name", `${name}px`);
    this.isNarrow = width < 400;
    this.room = this.isNarrow ? width : width * 0.64 - RING_WIDTH - 36 - name;
    const lanes = this.stage.run.mostLanes;
    setAttr(this.node, "data-density", lanes <= 5 ? "roomy" : lanes <= 9 ? "close" : "tight");
  }

  /** The element that stands for a request here. */
  find(request) {
    for (const row of this.rows.parts.values()) if (row.request === request) return row.node;
    return null;
  }

  draw(view) {
    const { used, budget } = this.budget.draw(view);
    const over = used > budget ? `, ${used - budget} over the budget` : "";
    const steered = steeredNote(view.settings, this.isNarrow);
    setText(this.count, `${used} of ${budget}${steered && this.isNarrow ? "" : " tokens"}${over}${steered}`);
    setAttr(this.count, "data-over", used > budget ? "" : null);
    const free = view.lanes.indexOf(-1);
    this.rows.show([...view.lanes.keys()], (row, lane) => {
      const request = view.lanes[lane];
      row.request = request;
      setAttr(row.node, "data-idle", request < 0 ? "" : null);
      if (request < 0) this.drawIdle(row, lane === free ? freeNote(view) : "");
      else this.drawRequest(row, view, view.states.get(request));
    });
  }

  drawIdle(row, why) {
    for (const node of [row.name, row.track, row.slice.node, row.words]) node.hidden = true;
    row.note.hidden = false;
    setText(row.note, `lane ${row.lane + 1} is free${why ? `: ${why}` : ""}`);
    setAttr(row.node, "title", why || null);
    for (const name of ["data-spot", "data-news", "data-request"]) setAttr(row.node, name, null);
  }

  drawRequest(row, view, state) {
    const { run } = view;
    const facts = run.requests[state.request];
    for (const node of [row.name, row.track, row.words]) node.hidden = false;
    setAttr(row.node, "title", null);
    setAttr(row.node, "data-request", facts.id);
    setAttr(row.node, "data-news", newsOf(view, state.request) || null);
    setAttr(row.node, "data-spot", this.stage.spot(state.request));
    setText(row.name, facts.id);
    setAttr(row.name, "aria-pressed", String(this.stage.selected === state.request));
    setAttr(row.name, "aria-label", `${facts.id}: ${progress(state)}`);
    setStyle(row.bar.node, "width", `${(trackWidth(run, state.request) * 100).toFixed(1)}%`);
    row.bar.draw(state, facts.limit);
    row.slice.draw(state.slice, view.settings.quantum);
    this.drawWords(row, view, state);
  }

  drawWords(row, view, state) {
    const { before, fresh } = view.run.textAt(state.request, view.tick);
    const skipped = view.narration.lines.find((line) => line.kind === "skipped" && line.request === state.request);
    const reading = state.generated === 0 || state.computed < state.tokens - 1;
    const bad = state.where === FINISHED && badEnd(view.run, state.request, view.tick);
    const note = bad ? `${bad} ×` : state.where === FINISHED ? "done ✓" : skipped ? skipped.text : reading ? progress(state) : "";
    setText(row.note, note);
    row.note.hidden = note === "";
    row.words.hidden = state.where !== FINISHED && (reading || Boolean(skipped));
    // What fits of a text, by the mean width of a letter; the end of it is shown.
    const width = this.room + (view.settings.quantum || this.isNarrow ? 0 : RING_WIDTH) - (note ? NOTE_WIDTH : 0);
    const room = Math.max(Math.floor(width / LETTER_WIDTH / this.stage.teach.type) - fresh.length, 0);
    const old = visible(before).trimStart();
    setText(row.before, old.length > room ? `…${old.slice(old.length - room)}` : old);
    setText(row.fresh, old ? visible(fresh) : visible(fresh).trimStart());
    row.fresh.hidden = fresh === "";
  }
}

/** One width for all names, so that the bars stand in line. */
function nameWidth(stage) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `700 ${13 * stage.teach.type}px ${stage.font}`;
  const widest = stage.run.requests.reduce((most, { id }) => Math.max(most, context.measureText(id).width), 0);
  return Math.ceil(Math.max(28, Math.min(widest + 2, 96)));
}

function progress(state) {
  if (state.where === FINISHED) return `done after ${counted(state.generated, "token")}`;
  if (state.computed < state.tokens - 1 || state.generated === 0) {
    return `${state.again ? "computing again" : "reading"}, ${state.computed} of ${state.tokens} tokens`;
  }
  return counted(state.generated, "token") + " generated";
}

/** Why the first free lane is free, as the narration says it. */
function freeNote(view) {
  const line = view.narration.lines.find(({ kind, request }) => {
    const where = view.states.get(request)?.where;
    return kind === "skipped" && (where === WAITING || where === PREEMPTED);
  });
  return line ? `${view.run.requests[line.request].id} waits. ${line.text}` : "";
}

/** Line breaks and tabs as signs, so that one line shows them. */
function visible(text) {
  return text.replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

/** How much of its slice a request has used. */
class SliceRing {
  constructor() {
    this.arc = svg("circle", { cx: 9, cy: 9, r: 6.5, pathLength: 100, class: "arc" });
    const ring = svg("svg", { viewBox: "0 0 18 18", "aria-hidden": "true" }, svg("circle", { cx: 9, cy: 9, r: 6.5 }), this.arc);
    this.label = el("span");
    this.node = el("span", { class: "slice" }, ring, this.label);
  }

  draw(used, quantum) {
    this.node.hidden = !quantum;
    if (!quantum) return;
    const share = Math.min(used / quantum, 1);
    setAttr(this.arc, "stroke-dasharray", `${(share * 100).toFixed(1)} 100`);
    setAttr(this.node, "data-over", used >= quantum ? "" : null);
    setText(this.label, `${used}/${quantum}`);
  }
}

function heading(text, ...rest) {
  return el("header", {}, el("h2", { text }), ...rest);
}
