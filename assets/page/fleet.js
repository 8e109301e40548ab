// A tile for each replica. It follows the stages of its link; the other half is pages/components/scale_out_tiles.py.
const MARK = "__tickscopeFleet";
/** In the order of `ReplicaState` in scheduler_core/replicas/overview.py. */
const STATES = ["alive", "gone", "starting"];
const NO_QUERY = 1001;
/** Arrow keys move by a tile, or by a row of them. */
const MOVES = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -Infinity, ArrowDown: Infinity };

function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** One replica, and what it is at a tick. */
class Replica {
  constructor(number, columns, run) {
    this.number = number;
    this.blocks = run.blocks;
    for (const [name, text] of Object.entries(columns)) this[name] = unpackLevels(text, run.ticks);
  }

  /** Since when it is what it is, and until when. */
  spanAt(tick) {
    let [from, to] = [tick, tick];
    while (from > 0 && this.state[from - 1] === this.state[tick]) from -= 1;
    while (to + 1 < this.state.length && this.state[to + 1] === this.state[tick]) to += 1;
    return { from, to: to + 1, isEnd: to + 1 === this.state.length };
  }

  hitRate(tick) {
    const share = this.hits[tick];
    return share === NO_QUERY ? "–" : `${Math.round(share / 10)} %`;
  }
}

class Tile {
  constructor(replica, fleet) {
    this.replica = replica;
    this.isSmall = fleet.isSmall;
    this.hit = node("span", { class: "hit" });
    this.fill = node("i");
    this.left = node("span");
    this.right = node("span", { class: "kv" });
    this.node = node(
      "button",
      { type: "button", class: "tile", tabindex: "-1", click: () => fleet.open(replica.number) },
      node("span", { class: "row" }, node("b", {}, String(replica.number)), this.hit),
      node("span", { class: "bar" }, this.fill),
      node("span", { class: "row low" }, this.left, this.right),
    );
  }

  show(tick) {
    const { replica } = this;
    const state = STATES[replica.state[tick]];
    set(this.node, "data-state", state);
    if (state === "alive") this.showAlive(tick);
    else this.showAway(tick, state);
  }

  showAlive(tick) {
    const { replica } = this;
    const [running, waiting, used] = [replica.running[tick], replica.waiting[tick], replica.used[tick]];
    put(this.hit, `hit ${replica.hitRate(tick)}`);
    put(this.left, `run ${running} · wait ${waiting}`);
    put(this.right, this.isSmall ? `${Math.round((100 * used) / replica.blocks)} %` : `${used}/${replica.blocks}`);
    this.fill.style.width = `${(100 * used) / replica.blocks}%`;
    const rate = replica.hits[tick] === NO_QUERY ? "nothing looked up yet" : `hit rate ${replica.hitRate(tick)}`;
    this.say(`alive, ${running} running, ${waiting} waiting, ${used} of ${replica.blocks} KV blocks in use, ${rate}`);
  }

  showAway(tick, state) {
    const { from, to, isEnd } = this.replica.spanAt(tick);
    const until = isEnd ? "" : ` until tick ${to}`;
    put(this.hit, state === "gone" ? "✕ gone" : "starting");
    put(this.left, state === "gone" ? `since tick ${from}` : "loads weights");
    put(this.right, isEnd ? "" : `to ${to}`);
    this.fill.style.width = state === "starting" && !isEnd ? `${(100 * (tick + 1 - from)) / (to - from)}%` : "0%";
    this.say(state === "gone" ? `gone since tick ${from}, killed` : `starting, loads the weights${until}`);
  }

  say(what) {
    set(this.node, "aria-label", `Replica ${this.replica.number}: ${what}`);
  }
}

class Fleet {
  constructor(parent) {
    this.toggle = node("button", { type: "button", class: "drive play", click: () => this.drive("toggle") });
    this.clock = node("span", { class: "clock" });
    const bar = node("div", { class: "drives" }, this.step(-1, "Step back", "‹"), this.toggle, this.step(1, "Step forward", "›"), this.clock);
    this.grid = node("div", { class: "grid", role: "group", "aria-label": "Replicas. Arrow keys move, Enter opens a stage.", keydown: (event) => this.key(event) });
    this.words = node("p", { class: "words" });
    this.root = node("div", { class: "fleet", "data-fleet": "" }, bar, this.grid, this.words);
    parent.append(this.root);
    this.hear = ({ detail }) => detail.link === this.link && this.follow(detail);
    this.showPlaying(false);
    window.addEventListener("tickscope-tick", this.hear);
  }

  step(by, label, sign) {
    return node("button", { type: "button", class: "drive", "aria-label": label, click: () => this.drive("step", by) }, sign);
  }

  /** Asks the stages, which own the playhead. */
  drive(act, by = 0) {
    window.dispatchEvent(new CustomEvent("tickscope-drive", { detail: { link: this.link, act, by } }));
  }

  follow({ tick, end, playing }) {
    this.end = end;
    this.show(tick);
    this.showPlaying(playing);
  }

  showPlaying(playing) {
    put(this.toggle, playing ? "Pause" : "Play");
    set(this.root, "data-playing", String(playing));
  }

  destroy() {
    window.removeEventListener("tickscope-tick", this.hear);
    floor.leave(this.root);
    this.root.remove();
  }

  update({ run, link, tick, opened }, tell) {
    this.tell = tell;
    this.link = link;
    const signature = JSON.stringify(run);
    if (this.signature !== signature) this.load(run, signature);
    // Once there, it goes by the stages: they may be further on than the server has heard.
    this.show(this.tick ?? tick);
    this.mark(opened);
  }

  load(run, signature) {
    this.signature = signature;
    this.last = this.end = run.ticks - 1;
    this.isSmall = run.replicas.length > 4;
    this.tiles = run.replicas.map((columns, index) => new Tile(new Replica(index + 1, columns, run), this));
    this.grid.replaceChildren(...this.tiles.map((tile) => tile.node));
    set(this.root, "data-size", this.isSmall ? "small" : "large");
    put(this.words, `run, wait: requests running and waiting. Bar${this.isSmall ? " and %" : ""}: KV blocks in use, of ${run.blocks}. hit: prompt tokens found in a cache since it started. A click opens its stage.`);
  }

  show(tick) {
    this.tick = tick;
    set(this.root, "data-tick", String(tick));
    put(this.clock, `tick ${tick} of ${this.end}`);
    for (const tile of this.tiles) tile.show(Math.max(0, Math.min(tick, this.last)));
  }

  /** Who is opened is pressed, and is the one that Tab comes to. */
  mark(opened) {
    this.opened = opened;
    const focused = this.tiles.findIndex((tile) => tile.node === this.root.getRootNode().activeElement);
    this.tiles.forEach((tile, index) => {
      set(tile.node, "aria-pressed", String(index + 1 === opened));
      set(tile.node, "tabindex", index === (focused < 0 ? Math.max(0, opened - 1) : focused) ? "0" : "-1");
    });
  }

  open(number) {
    this.tell({ replica: number, tick: this.tick });
  }

  key(event) {
    const at = this.tiles.findIndex((tile) => tile.node === event.target);
    const to = this.target(event.key, at);
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const tile = this.tiles[Math.max(0, Math.min(to, this.tiles.length - 1))];
    for (const each of this.tiles) set(each.node, "tabindex", each === tile ? "0" : "-1");
    tile.node.focus();
  }

  target(key, at) {
    if (key === "Home") return 0;
    if (key === "End") return this.tiles.length - 1;
    if (!(key in MOVES)) return undefined;
    const columns = this.tiles.filter((tile) => tile.node.offsetTop === this.tiles[0].node.offsetTop).length;
    const to = at + (Number.isFinite(MOVES[key]) ? MOVES[key] : Math.sign(MOVES[key]) * columns);
    return to < 0 || to >= this.tiles.length ? at : to;
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const held = (parentElement[MARK] ??= { fleet: new Fleet(parentElement), turn: 0 });
  const turn = (held.turn += 1);
  held.fleet.update(data, (opened) => floor.take(held.fleet.root, () => setTriggerValue("open", opened)));
  return () => {
    if (held.turn !== turn) return;
    held.fleet.destroy();
    delete parentElement[MARK];
  };
}
