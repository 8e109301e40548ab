// A run as data: what is true as of the end of a tick. Knows no screen; each answer depends on the tick alone.

const DATA_VERSION = 1;

const ABSENT = 0;
const WAITING = 1;
const RUNNING = 2;
const PREEMPTED = 3;
const FINISHED = 4;

const EVENT_NAMES = [
  "arrived", "refused", "hit", "admitted", "preempted", "restored", "finished", "config", "fault", "expired", "evicted",
  "loaded",
];
const FINISH_REASONS = ["stop", "length", "abort", "rejected", "error"];
const PREEMPT_REASONS = ["slice", "memory", "push_out", "lanes"];

const FREE = 0;
const KEPT = 1;
const CACHED = 2;
const COMPUTED = 3;
const GENERATED = 4;
const LOADED = 5;

const KEYFRAME = 64;

class Run {
  constructor(data) {
    this.data = data;
    this.title = data.title;
    this.length = data.ticks;
    this.numBlocks = data.blocks;
    this.blockSize = data.block_size;
    this.hostBlocks = data.host_blocks;
    this.settings = data.settings;
    this.requests = readRequests(data.requests);
    this.readColumns(data);
    this.queue = new ListHistory(data.queue);
    this.running = new ListHistory(data.running);
    this.batch = new ListHistory(data.batch);
    this.tables = data.tables.map(readTable);
    this.promised = unpackLevels(data.promised, this.length);
    this.hostUsed = unpackLevels(data.host_used, this.length);
    this.readPublished(data.published);
    this.readClocks(data);
    this.readEvents(data.events);
    this.readNarration(data);
    this.assignLanes();
  }

  readColumns(data) {
    for (const name of ["where", "scheduled", "again", "hit", "low", "slice", "saved", "class", "preemptions"]) {
      this[name] = data[name].map((text) => unpackLevels(text, this.length));
    }
    for (const name of ["computed", "waited"]) {
      this[name] = data[name].map((text) => unpackRamps(text, this.length));
    }
  }

  readClocks(data) {
    this.start = Float64Array.from(summed(unpack(data.start)));
    this.span = unpackLevels(data.length, this.length, new Float64Array(this.length));
    this.wall = unpackLevels(data.wall, this.length, new Float64Array(this.length));
    this.wallSum = Float64Array.from(summed(Array.from(this.wall)));
  }

  readEvents(text) {
    const numbers = unpack(text);
    this.events = [];
    this.eventsByTick = new Map();
    for (let i = 0, tick = 0; i < numbers.length; i += 4) {
      tick += numbers[i];
      const event = { tick, name: EVENT_NAMES[numbers[i + 1]], request: numbers[i + 2] - 1, number: numbers[i + 3] };
      this.events.push(event);
      if (!this.eventsByTick.has(tick)) this.eventsByTick.set(tick, []);
      this.eventsByTick.get(tick).push(event);
    }
  }

  eventsAt(tick) {
    return this.eventsByTick.get(tick) ?? NOTHING;
  }

  readNarration(data) {
    this.lines = data.lines.map(([kind, request, lead, text]) => ({
      kind: data.kinds[kind], request: request - 1, lead, text,
    }));
    this.told = [];
    const numbers = unpack(data.told);
    for (let i = 0; i < numbers.length; i += 2 + numbers[i + 1]) {
      this.told.push({ total: numbers[i], lines: numbers.slice(i + 2, i + 2 + numbers[i + 1]) });
    }
  }

  /** The sentences of a tick that travelled, headline first, and how many there are in all. */
  narration(tick) {
    const told = this.told[tick];
    return told ? { total: told.total, lines: told.lines.map((i) => this.lines[i]) } : { total: 0, lines: [] };
  }

  readPublished(text) {
    const numbers = unpack(text);
    this.toggles = new Map();
    for (let i = 0, tick = 0; i < numbers.length; i += 2 + numbers[i + 1]) {
      tick += numbers[i];
      this.toggles.set(tick, numbers.slice(i + 2, i + 2 + numbers[i + 1]));
    }
    this.publishedFrames = [];
    const frame = new Uint8Array(this.numBlocks);
    for (let tick = 0; tick < this.length; tick += 1) {
      for (const block of this.toggles.get(tick) ?? NOTHING) frame[block] ^= 1;
      if (tick % KEYFRAME === 0) this.publishedFrames.push(frame.slice());
    }
  }

  /** 1 for each block that can be found in the prefix cache. */
  publishedAt(tick) {
    const key = Math.floor(tick / KEYFRAME);
    const frame = this.publishedFrames[key]?.slice() ?? new Uint8Array(this.numBlocks);
    for (let t = key * KEYFRAME + 1; t <= tick; t += 1) {
      for (const block of this.toggles.get(t) ?? NOTHING) frame[block] ^= 1;
    }
    return frame;
  }

  tableAt(request, tick) {
    const { ticks, lists } = this.tables[request];
    const i = lastAtOrBefore(ticks, tick);
    return i < 0 ? NOTHING : lists[i];
  }

  settingsAt(tick) {
    let found = this.settings[0][1];
    for (const [from, settings] of this.settings) if (from <= tick) found = settings;
    return found;
  }

  /** Lanes of a tick: those running, and those that ran in it to their end. A request keeps its lane. */
  assignLanes() {
    this.laneOf = this.requests.map(() => new Int16Array(this.length).fill(-1));
    this.mostLanes = Math.max(...this.settings.map(([, settings]) => settings.max_num_seqs));
    let before = new Map();
    for (let tick = 0; tick < this.length; tick += 1) {
      const present = new Set(this.running.at(tick));
      for (const r of this.batch.at(tick)) if (this.isScheduled(r, tick)) present.add(r);
      const lanes = new Map();
      const taken = new Set();
      for (const [r, lane] of before) {
        if (!present.has(r) || this.preemptedAt(r, tick)) continue;
        lanes.set(r, lane);
        taken.add(lane);
      }
      for (const r of present) {
        if (lanes.has(r)) continue;
        let lane = 0;
        while (taken.has(lane)) lane += 1;
        lanes.set(r, lane);
        taken.add(lane);
        this.mostLanes = Math.max(this.mostLanes, lane + 1);
      }
      for (const [r, lane] of lanes) this.laneOf[r][tick] = lane;
      before = new Map([...lanes].filter(([r]) => this.where[r][tick] === RUNNING));
    }
  }

  preemptedAt(request, tick) {
    return this.eventsAt(tick).some((event) => event.name === "preempted" && event.request === request);
  }

  isScheduled(request, tick) {
    return this.scheduled[request][tick] > 0;
  }

  /** Output tokens drawn until the end of `tick`. */
  numGenerated(request, tick) {
    return lastAtOrBefore(this.requests[request].samples, tick) + 1;
  }

  /** Output so far, as { before, fresh }: `fresh` is the piece that came in this tick. */
  textAt(request, tick) {
    const { ends, text } = this.requests[request];
    const count = this.numGenerated(request, tick);
    const old = tick > 0 ? this.numGenerated(request, tick - 1) : 0;
    const cut = old ? ends[old - 1] : 0;
    return { before: text.slice(0, cut), fresh: text.slice(cut, count ? ends[count - 1] : 0) };
  }

  /** One request as of the end of a tick. */
  stateAt(request, tick) {
    const facts = this.requests[request];
    const scheduled = this.scheduled[request][tick] >> 1;
    const computed = this.computed[request][tick];
    const generated = this.numGenerated(request, tick);
    return {
      request,
      where: this.where[request][tick],
      lane: this.laneOf[request][tick],
      prompt: facts.prompt,
      tokens: facts.prompt + generated,
      generated,
      computed,
      scheduled,
      decodes: (this.scheduled[request][tick] & 1) === 1,
      again: this.again[request][tick],
      cached: Math.min(this.hit[request][tick], computed),
      loaded: Math.min(this.hit[request][tick] + this.low[request][tick], computed),
      slice: this.slice[request][tick],
      saved: this.saved[request][tick],
      waited: this.waited[request][tick],
      level: this.class[request][tick],
      preemptions: this.preemptions[request][tick],
    };
  }

  /** Blocks as { kind, fill, split, owners, index, published }: filled to `fill` eighths, of which `split` are prompt. */
  blocksAt(tick) {
    const published = this.publishedAt(tick);
    const cells = [];
    for (let block = 0; block < this.numBlocks; block += 1) {
      cells.push(unusedBlock(published[block] === 1));
    }
    this.requests.forEach((facts, request) => {
      this.tableAt(request, tick).forEach((block, index) => this.occupy(cells[block], facts, request, index, tick));
    });
    return cells;
  }

  occupy(cell, facts, request, index, tick) {
    if (!cell) return;
    const start = index * this.blockSize;
    const inside = Math.min(Math.max(this.computed[request][tick] - start, 0), this.blockSize);
    const hit = this.hit[request][tick];
    const kind = start < hit ? CACHED : start < hit + this.low[request][tick] ? LOADED : start < facts.prompt ? COMPUTED : GENERATED;
    cell.owners = cell.owners === NOTHING ? [request] : [...cell.owners, request];
    cell.kind = cell.owners.length > 1 ? CACHED : kind;
    cell.fill = Math.max(cell.fill, Math.ceil((inside / this.blockSize) * 8));
    cell.split = kind === COMPUTED ? Math.min(Math.round(((facts.prompt - start) / this.blockSize) * 8), 8) : 8;
    cell.index = index;
  }

  /** Where blocks that memory lacked came from, in words; "" if none did. */
  get lowerTier() {
    const words = { disk: "from disk", shared: "from the shared cache" };
    return this.data.tiers.length ? this.data.tiers.map((tier) => words[tier] ?? "from a lower tier").join(", ") : "";
  }

  /** Where the last request has gone: nothing is left to do. */
  isIdle(tick) {
    return this.batch.at(tick).length === 0;
  }
}

/** A block that nobody owns: free, or kept for reuse while it is findable. */
function unusedBlock(published) {
  return { kind: published ? KEPT : FREE, fill: published ? 8 : 0, split: 8, owners: NOTHING, index: -1, published };
}

function readRequests(list) {
  const labels = shortLabels(list.map((request) => request.id));
  return list.map((request, i) => {
    const ends = [];
    let length = 0;
    for (const piece of request.pieces) ends.push((length += piece.length));
    return {
      id: request.id,
      label: labels[i],
      prompt: request.prompt,
      limit: request.limit,
      priority: request.priority,
      words: request.words,
      text: request.pieces.join(""),
      ends,
      samples: summed(unpack(request.samples)),
    };
  });
}

/** What fits into a square: the number of "R7", or the place in the list where ids are words. */
function shortLabels(ids) {
  const digits = ids.map((id) => /^\D*(\d{1,3})$/.exec(id)?.[1]);
  const usable = digits.every(Boolean) && new Set(digits).size === ids.length;
  return ids.map((_, i) => (usable ? digits[i] : String(i + 1)));
}

function readTable(text) {
  const ticks = [];
  const lists = [];
  const numbers = unpack(text);
  for (let i = 0, tick = 0, table = NOTHING; i < numbers.length; ) {
    tick += numbers[i];
    const keep = numbers[i + 1];
    const length = numbers[i + 2];
    table = [...table.slice(0, keep), ...numbers.slice(i + 3, i + 3 + length)];
    ticks.push(tick);
    lists.push(table);
    i += 3 + length;
  }
  return { ticks, lists };
}

/** A number that stands for all that is drawn at a tick (FNV-1a), so that two ways to a tick can be compared. */
function hashNumbers(numbers) {
  let hash = 0x811c9dc5;
  for (const number of numbers) {
    for (let rest = number >>> 0, i = 0; i < 4; i += 1, rest >>>= 8) {
      hash = Math.imul(hash ^ (rest & 255), 0x01000193);
    }
  }
  return (hash >>> 0).toString(16).padStart(8, "0");
}
