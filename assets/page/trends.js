// Small curves of the last minutes. Built once: new values move them, and what the pointer shows stays.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 120;
const COLORS = ["#0072b2", "#cc79a7"];

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function tag(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

function told(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "%") return `${(100 * value).toFixed(1)} %`;
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

/** A round number that is at least `value`. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 4, 5, 8, 10].map((step) => step * power).find((step) => step >= value);
}

class Trend {
  constructor() {
    this.root = tag("section", "trend");
    this.title = tag("h3", "");
    this.legend = tag("div", "legend");
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.axis = tag("div", "axis");
    this.root.append(this.title, this.legend, this.svg, this.axis);
    this.svg.addEventListener("pointermove", (event) => {
      const box = this.svg.getBoundingClientRect();
      this.hovered = (event.clientX - box.left) / box.width;
      this.draw();
    });
    this.svg.addEventListener("pointerleave", () => {
      this.hovered = null;
      this.draw();
    });
  }

  update(chart, ages) {
    this.chart = chart;
    this.ages = ages;
    this.draw();
  }

  draw() {
    const { chart, ages } = this;
    const span = Math.max(ages[0], 1);
    const known = chart.series.flatMap((series) => series.values).filter((value) => value !== null);
    const top = chart.top || ceiling(Math.max(1, ...known));
    const x = (i) => WIDTH * (1 - ages[i] / span);
    const y = (value) => HEIGHT - 2 - (Math.min(value, top) / top) * (HEIGHT - 6);
    const at = this.hovered === null || this.hovered === undefined ? ages.length - 1 : nearest(ages, span * (1 - this.hovered));
    this.title.textContent = `${chart.title} · up to ${told(top, chart.unit)}`;
    this.svg.setAttribute("aria-label", chart.label);
    this.legend.replaceChildren(
      ...chart.series.map((series, place) => {
        const name = tag("span", place ? "second" : "", `${series.name} ${told(series.values[at], chart.unit)}`);
        name.style.setProperty("--line", COLORS[place]);
        return name;
      }),
    );
    const lines = [0, 0.5, 1].map((share) => element("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(share * top), y2: y(share * top) }));
    const curves = chart.series.map((series, place) => {
      const points = series.values.map((value, i) => (value === null ? "" : `${x(i)},${y(value)}`)).filter(Boolean);
      const curve = element("polyline", { class: place ? "second" : "", points: points.join(" ") });
      curve.style.setProperty("--line", COLORS[place]);
      return curve;
    });
    if (this.hovered !== null && this.hovered !== undefined) lines.push(element("line", { class: "cursor", x1: x(at), x2: x(at), y1: 0, y2: HEIGHT }));
    this.svg.replaceChildren(...lines, ...curves);
    const here = at === ages.length - 1 ? "now" : `${Math.round(ages[at])} s ago`;
    this.axis.replaceChildren(tag("span", "", ages.length > 1 ? `${Math.round(span)} s ago` : ""), tag("span", "", here));
  }
}

function nearest(ages, age) {
  let best = 0;
  ages.forEach((each, i) => {
    if (Math.abs(each - age) < Math.abs(ages[best] - age)) best = i;
  });
  return best;
}

export default function ({ data, parentElement }) {
  let held = parentElement.tickscopeTrends;
  if (!held) {
    held = parentElement.tickscopeTrends = { grid: tag("div", "trends"), trends: [] };
    const root = tag("div", "root");
    root.append(held.grid);
    parentElement.append(root);
  }
  while (held.trends.length < data.charts.length) {
    const trend = new Trend();
    held.trends.push(trend);
    held.grid.append(trend.root);
  }
  data.charts.forEach((chart, place) => held.trends[place].update(chart, data.ages));
}
