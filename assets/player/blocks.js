// KV memory: a square a block, and the copies on the host.

const SIZES = [21, 19, 17, 15, 13, 11];
const LARGEST_PITCH = 38;
const BLOCK_KINDS = ["free", "kept", "cached", "computed", "generated", "loaded"];
const MAX_SQUARES = 1024;
const GAP = 3;

class Blocks {
  constructor(stage) {
    this.stage = stage;
    this.count = el("span", { class: "count" });
    this.grid = el("div", { class: "grid", role: "group", "aria-label": "KV blocks" });
    this.more = el("p", { class: "empty", hidden: "" });
    this.squares = [];
    this.grid.addEventListener("keydown", (event) => this.rove(event));
    this.node = el("section", { class: "panel kv" }, heading("KV blocks", this.count), this.grid, this.more);
  }

  /** The largest squares that fill the width in few rows. */
  layout() {
    const { run } = this.stage;
    if (this.drawnFor !== run) this.rebuild(drawnBlocks(run));
    this.drawnFor = run;
    const shown = this.squares.length;
    const width = this.grid.clientWidth + GAP;
    this.isNarrow = width < 480;
    const tallest = this.stage.teach.isOn ? 150 : this.isNarrow ? 400 : 176;
    const [pitch, columns] = gridFor(shown, width, tallest);
    setStyle(this.grid, "--cell", `${(pitch - GAP).toFixed(2)}px`);
    setStyle(this.grid, "grid-template-columns", `repeat(${columns}, var(--cell))`);
    setAttr(this.grid, "data-small", pitch - GAP < 16 ? "" : null);
    this.columns = columns;
    const hidden = run.numBlocks - shown;
    this.more.hidden = hidden === 0;
    setText(this.more, `and ${counted(hidden, "block")} more; drawn are those that requests hold in this run`);
  }

  rebuild(blocks) {
    if (blocks.length === this.squares.length && blocks.every((block, place) => this.squares[place].block === block)) return;
    this.squares = blocks.map((block) => this.make(block));
    this.grid.replaceChildren(...this.squares.map((square) => square.node));
    this.squares[0]?.node.setAttribute("tabindex", "0");
  }

  make(block) {
    const node = el("span", { class: "block", role: "img", "data-kind": "free", click: () => this.pick(block) });
    this.stage.tip.on(node, () => this.facts(block));
    return { node, block, code: -1 };
  }

  pick(block) {
    const [owner] = this.stage.view.blocks[block].owners;
    if (owner !== undefined) this.stage.toggleSelection(owner);
    if (this.stage.options.why) this.stage.act("block", owner, { block });
  }

  /** Arrow keys walk from square to square while one has the focus. */
  rove(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    const from = this.squares.findIndex((square) => square.node === event.target);
    if (from < 0 || !(event.key in steps)) {
      if (from >= 0 && event.key === "Enter") this.pick(this.squares[from].block);
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const to = this.squares[from + steps[event.key]];
    if (!to) return;
    this.squares[from].node.removeAttribute("tabindex");
    to.node.setAttribute("tabindex", "0");
    to.node.focus({ preventScroll: true });
  }

  facts(block) {
    const { view } = this.stage;
    const cell = view.blocks[block];
    const names = cell.owners.map((owner) => view.run.requests[owner].id).join(", ");
    const rows = [["state", blockWords(cell)]];
    if (names) rows.push([cell.owners.length > 1 ? "shared by" : "of", names]);
    if (cell.index >= 0) {
      const first = cell.index * view.run.blockSize;
      rows.push(["positions", `${first} to ${first + view.run.blockSize - 1}`]);
    }
    rows.push(["in the prefix cache", cell.published ? "yes" : "no"]);
    return { title: `Block ${block}`, rows };
  }

  draw(view) {
    this.drawCounts(view);
    const { selected } = this.stage;
    for (const square of this.squares) {
      const { block } = square;
      const cell = view.blocks[block];
      const spot = selected < 0 ? 0 : cell.owners.includes(selected) ? 1 : 2;
      const changed = view.changedBlocks.has(block);
      const code = (cellCode(cell) * 3 + spot) * 2 + (changed ? 1 : 0);
      if (square.code === code && cell.owners.length < 2) continue;
      square.code = code;
      this.drawSquare(square.node, block, cell, changed, spot, view.run);
    }
  }

  drawSquare(node, block, cell, changed, spot, run) {
    const label = cell.owners.length > 1 ? `×${cell.owners.length}` : cell.owners.length ? run.requests[cell.owners[0]].label : "";
    setAttr(node, "data-kind", BLOCK_KINDS[cell.kind]);
    setAttr(node, "data-published", cell.published ? "" : null);
    setAttr(node, "data-changed", changed ? "" : null);
    setAttr(node, "data-spot", ["", "on", "off"][spot] || null);
    // A number stands in the middle: on the empty part it takes the colour of text.
    setAttr(node, "data-low", cell.owners.length && cell.fill < 6 ? "" : null);
    const isMixed = cell.kind === COMPUTED && cell.split < cell.fill;
    setAttr(node, "data-mixed", isMixed ? (cell.split < 5 ? "text" : "prompt") : null);
    setStyle(node, "--split", isMixed ? `${cell.split * 12.5}%` : "100%");
    setStyle(node, "--fill", `${cell.fill * 12.5}%`);
    setText(node, label);
    const names = cell.owners.map((owner) => run.requests[owner].id).join(", ");
    setAttr(node, "aria-label", `block ${block}, ${blockWords(cell)}${names ? `, ${names}` : ""}`);
  }

  drawCounts(view) {
    const used = view.blocks.filter((cell) => cell.owners.length > 0).length;
    const kept = view.blocks.filter((cell) => cell.kind === KEPT).length;
    const promised = view.run.promised[view.tick] ?? 0;
    const free = view.run.numBlocks - used - kept;
    const parts = this.isNarrow
      ? [`${used} of ${view.run.numBlocks}`, `${kept} kept`, `${free} free`]
      : [`${used} of ${view.run.numBlocks} in use`, `${kept} kept for reuse`, `${free} free`];
    if (promised) parts.push(`${promised} promised`);
    setText(this.count, parts.join(" · "));
  }
}

/** The blocks to draw: all, or of a large memory those that requests hold at some time, as far as there is room. */
function drawnBlocks(run) {
  if (run.numBlocks <= MAX_SQUARES) return Array.from({ length: run.numBlocks }, (_, block) => block);
  const held = new Set(run.tables.flatMap(({ lists }) => lists.flat()));
  return [...held].sort((a, b) => a - b).slice(0, MAX_SQUARES);
}

function blockWords(cell) {
  if (cell.owners.length > 1) return `shared, ${cell.owners.length} references`;
  if (cell.kind === COMPUTED && cell.split < cell.fill) return "computed prompt and generated text";
  return ["free", "kept for reuse", "taken from the cache", "computed prompt", "generated text", "loaded from below memory"][cell.kind];
}

/** Pitch and columns for `count` squares in `width`, at most `tallest` high where that is possible. */
function gridFor(count, width, tallest) {
  for (const size of SIZES) {
    const smallest = size + GAP;
    const rows = Math.max(1, Math.ceil(count / Math.max(1, Math.floor(width / smallest))));
    const columns = Math.ceil(count / rows);
    const pitch = Math.min(width / columns, LARGEST_PITCH);
    if (rows * pitch <= tallest || size === SIZES.at(-1)) return [pitch, columns];
  }
  return [LARGEST_PITCH, 1];
}

const HOST_SIZES = [20, 16, 13, 9, 7, 5];
const HOST_LABEL = 13;
const MAX_HOST_SQUARES = 512;

class HostPool {
  constructor(stage) {
    this.stage = stage;
    this.count = el("span", { class: "count" });
    this.grid = el("div", { class: "grid host-grid" });
    this.note = el("p", { class: "empty" });
    this.squares = new KeyedChildren(this.grid, (key) => this.make(key));
    const hold = el("div", { class: "hold" }, this.grid, this.note);
    this.node = el("section", { class: "panel host" }, heading("Host pool", this.count), hold);
  }

  /** The panel keeps its size; the squares shrink to the most that are ever saved. */
  layout() {
    const { run } = this.stage;
    const most = run.hostUsed.reduce((highest, used) => Math.max(highest, used), 0);
    const width = this.node.clientWidth - 24;
    const height = this.node.clientHeight - 36 - 10 - 22;
    const size = HOST_SIZES.find((cell) => fits(most, cell, width, height)) ?? HOST_SIZES.at(-1);
    setStyle(this.grid, "--cell", `${size}px`);
    setAttr(this.grid, "data-bare", size < HOST_LABEL ? "" : null);
  }

  make(key) {
    const request = Number(key.split(":")[0]);
    const node = el("span", { class: "block", "data-kind": "preempted", "aria-hidden": "true", click: () => this.stage.toggleSelection(request) });
    this.stage.tip.on(node, () => requestFacts(this.stage.view, request));
    return { node, request };
  }

  draw(view) {
    const { run, tick } = view;
    const keys = [];
    const saved = [];
    for (const state of view.states.values()) {
      const blocks = Math.ceil(state.saved / run.blockSize);
      if (!blocks) continue;
      saved.push(state);
      for (let i = 0; i < blocks; i += 1) keys.push(`${state.request}:${i}`);
    }
    const drops = view.settings.preemption_mode !== "swap" || run.hostBlocks === 0;
    setText(this.count, drops && !keys.length ? "" : `${run.hostUsed[tick] ?? 0} of ${run.hostBlocks}`);
    this.squares.show(keys.slice(0, MAX_HOST_SQUARES), ({ node, request }) => {
      setText(node, run.requests[request].label);
      setAttr(node, "data-spot", this.stage.spot(request));
    });
    setText(this.note, hostNote(run, saved, drops, this.stage.options.spoilers));
  }
}

function fits(count, cell, width, height) {
  const gap = cell < HOST_LABEL ? 2 : GAP;
  const columns = Math.max(1, Math.floor((width + gap) / (cell + gap)));
  return Math.ceil(count / columns) * (cell + gap) - gap <= height;
}

/** What to do to see something here. */
function nothingSaved(run, drops, spoilers) {
  if (drops) return "Not used: preempted KV is dropped. Preemption by swap would save it.";
  if (!spoilers) return "Nothing saved.";
  const isPreempted = run.events.some((event) => event.name === "preempted");
  return isPreempted ? "Nothing saved. Jump to a preemption to see some." : "Nothing saved: nobody is preempted here.";
}

function hostNote(run, saved, drops, spoilers) {
  if (!saved.length) return nothingSaved(run, drops, spoilers);
  const tokens = saved.reduce((sum, state) => sum + state.saved, 0);
  const names = saved.length > 3 ? counted(saved.length, "request") : saved.map((state) => run.requests[state.request].id).join(", ");
  // Whole blocks are copied, the last one's empty places with them.
  const blocks = saved.reduce((sum, state) => sum + Math.ceil(state.saved / run.blockSize), 0);
  const size = run.data.backend.bytes_per_token * run.blockSize * blocks;
  return `${names} · ${tokens.toLocaleString("en")} tok${size ? ` · ${bytes(size)}` : ""}`;
}
