// A small curve under a slider: one value for each of its positions, and a mark at the one chosen.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 200;
const HEIGHT = 26;

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function draw(root, data) {
  const values = data.values;
  const top = Math.max(...values);
  const bottom = Math.min(...values);
  const x = (i) => (values.length > 1 ? (i / (values.length - 1)) * WIDTH : 0);
  const y = (v) => (top === bottom ? HEIGHT - 5 : HEIGHT - 4 - ((v - bottom) / (top - bottom)) * (HEIGHT - 8));
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", data.label);
  svg.append(
    element("polyline", { class: "curve", points: values.map((v, i) => `${x(i)},${y(v)}`).join(" ") }),
    element("line", { class: "mark", x1: x(data.at), x2: x(data.at), y1: 0, y2: HEIGHT }),
  );
  const caption = document.createElement("div");
  caption.className = "caption";
  const words = document.createElement("span");
  words.textContent = data.caption;
  const value = document.createElement("span");
  value.className = "value";
  value.textContent = data.value;
  caption.append(words, value);
  root.replaceChildren(svg, caption);
}

export default function ({ parentElement, data }) {
  let root = parentElement.querySelector(".sparkline");
  if (!root) {
    root = document.createElement("div");
    root.className = "sparkline";
    parentElement.append(root);
  }
  if (data && data.values && data.values.length) draw(root, data);
}
