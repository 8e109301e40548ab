// A small curve under a slider: one value for each of its positions, where the slider stands and where nothing changes.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 200;
const HEIGHT = 26;
const LOOK_MS = 250;
/** A question that the server has not heard is asked again after this time. */
const AGAIN_MS = 4000;

function ask(held, send, delay) {
  askNoMore(held);
  held.timer = setTimeout(() => {
    held.speech = floor.take(held.strip.root, () => {
      send();
      ask(held, send, AGAIN_MS);
    });
  }, delay);
}

function askNoMore(held) {
  clearTimeout(held.timer);
  floor.leave(held.speech);
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function tag(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Built once: what has the focus, or is unfolded, stays so while values come in. */
class Strip {
  constructor(root) {
    this.root = root;
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.select = tag("select");
    this.value = tag("span", "value");
    const chooser = tag("span", "chooser");
    chooser.append(this.select);
    const caption = tag("div", "caption");
    caption.append(chooser, this.value);
    this.note = tag("p", "note");
    this.details = tag("details");
    this.summary = tag("summary");
    this.words = tag("div", "words");
    this.table = tag("table");
    this.details.append(this.summary, this.words, this.table);
    root.append(this.svg, caption, this.note, this.details);
    this.select.addEventListener("change", () => this.wish(this.select.value));
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", () => this.here());
  }

  update(data, send) {
    this.data = data;
    this.choose = send.choose;
    // The curve of before stays, faint, until there is something to draw.
    const known = data.values.filter((value) => value !== null);
    this.svg.classList.toggle("computing", data.look > 0);
    if (known.length || !data.look) this.draw(known);
    this.svg.setAttribute("aria-label", data.label);
    this.offer();
    this.here();
    this.note.textContent = data.note;
    this.note.hidden = !data.note;
    this.summary.textContent = data.line;
    this.words.replaceChildren(
      ...[data.why, data.meaning, ...data.notes].filter(Boolean).map((text) => tag("p", "", text)),
    );
    this.tabulate();
  }

  /** Until the page answers, what it says of before is no reason to take the choice back. */
  wish(name) {
    this.wished = { name, until: performance.now() + AGAIN_MS };
    this.choose(name);
  }

  draw(known) {
    const { values, holes, same, at } = this.data;
    const top = Math.max(...known);
    const bottom = Math.min(...known);
    const x = (i) => (values.length > 1 ? (i / (values.length - 1)) * WIDTH : 0);
    const y = (v) => (top === bottom ? HEIGHT - 5 : HEIGHT - 4 - ((v - bottom) / (top - bottom)) * (HEIGHT - 8));
    const line = (a, b, v, name) => element("line", { class: name, x1: x(a), x2: x(b), y1: y(v), y2: y(v) });
    this.svg.replaceChildren(element("line", { class: "mark", x1: x(at), x2: x(at), y1: 0, y2: HEIGHT }));
    for (const piece of pieces(values, holes)) {
      const points = piece.map((i) => `${x(i)},${y(values[i])}`).join(" ");
      this.svg.append(element("polyline", { class: "curve", points }));
    }
    values.forEach((value, i) => {
      const alone = value !== null && (i === 0 || values[i - 1] === null) && (values[i + 1] ?? null) === null;
      if (alone) this.svg.append(line(i, i, value, "dot"));
      if (holes[i]) this.svg.append(this.hole(i, x(i)));
    });
    for (const [first, last] of same) {
      if (values[first] !== null) this.svg.append(line(first, last, values[first], "flat"));
    }
    if (values[at] !== null) this.svg.append(line(at, at, values[at], "here"));
  }

  hole(i, x) {
    const mark = element("line", { class: "hole", x1: x, x2: x, y1: HEIGHT - 7, y2: HEIGHT });
    const title = element("title", {});
    title.textContent = `${this.data.positions[i]}: ${this.data.holes[i]}`;
    mark.append(title);
    return mark;
  }

  offer() {
    const { options, figure, field } = this.data;
    if (this.wished?.name === figure || performance.now() > this.wished?.until) this.wished = null;
    const names = options.map((option) => option.name).join();
    if (this.select.dataset.names !== names) {
      this.select.dataset.names = names;
      this.select.replaceChildren(
        ...options.map((option) => {
          const made = tag("option", "", option.words);
          made.value = option.name;
          return made;
        }),
      );
    }
    this.select.value = this.wished?.name ?? figure;
    this.select.setAttribute("aria-label", `Figure over all positions of ${field}`);
    this.select.title = this.data.meaning;
  }

  here() {
    this.value.textContent = this.data.texts[this.data.at];
  }

  hover(event) {
    const { positions, texts, values, holes } = this.data;
    const box = this.svg.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const i = Math.round(part * (positions.length - 1));
    if (values[i] === null && !holes[i]) return this.here();
    this.value.textContent = `${positions[i]}: ${holes[i] ? "no value" : texts[i]}`;
  }

  tabulate() {
    const { rows, field, options, figure } = this.data;
    const words = options.find((option) => option.name === figure)?.words ?? figure;
    const head = tag("tr");
    for (const text of [field, words]) {
      const cell = tag("th", "", text);
      cell.scope = "col";
      head.append(cell);
    }
    const body = rows.map((row) => {
      const line = tag("tr", row.mark ? "same" : "");
      const name = tag("th", "", row.position);
      name.scope = "row";
      const value = tag("td", "", row.value);
      if (row.mark) value.append(tag("span", "tag", row.mark));
      line.append(name, value);
      return line;
    });
    this.table.replaceChildren(head, ...body);
  }
}

/** The positions in pieces without a hole; those that were not tried are passed over. */
function pieces(values, holes) {
  const found = [[]];
  values.forEach((value, i) => {
    if (value !== null) found[found.length - 1].push(i);
    else if (holes[i]) found.push([]);
  });
  return found.filter((piece) => piece.length > 1);
}

export default function ({ parentElement, data, setTriggerValue }) {
  if (!data?.values) return undefined;
  let held = parentElement.tickscopeStrip;
  if (!held) {
    const root = tag("div", "sparkline");
    parentElement.append(root);
    held = parentElement.tickscopeStrip = { strip: new Strip(root), turn: 0 };
  }
  const turn = (held.turn += 1);
  const { root } = held.strip;
  const choose = (name) => {
    floor.leave(held.choice); // only the last of quick choices is wanted
    held.choice = floor.take(root, () => setTriggerValue("choose", name));
  };
  held.strip.update(data, { choose });
  askNoMore(held);
  if (data.look) ask(held, () => setTriggerValue("look", data.look), LOOK_MS);
  // Streamlit may clean up an earlier call after a later one: only the latest stops the asking.
  return () => {
    if (held.turn === turn) askNoMore(held);
  };
}
