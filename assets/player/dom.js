// Small helpers around the DOM. Text reaches the page by textContent only.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; `class` and `text` are shorthands, functions become listeners. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A 16 by 16 icon from path data, hidden from screen readers. */
function icon(path) {
  return svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true", class: "icon" }, svg("path", { d: path }));
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

function setStyle(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) node.style.setProperty(name, value);
}

/** Children that belong to keys: made once, kept while their key is there, in the order of the keys. */
class KeyedChildren {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.parts = new Map();
  }

  show(keys, update) {
    const wanted = new Set(keys);
    for (const [key, part] of this.parts) {
      if (wanted.has(key)) continue;
      part.node.remove();
      this.parts.delete(key);
    }
    let next = this.parent.firstChild;
    for (const key of keys) {
      let part = this.parts.get(key);
      if (!part) this.parts.set(key, (part = this.make(key)));
      if (part.node === next) next = next.nextSibling;
      else this.parent.insertBefore(part.node, next);
      update(part, key);
    }
  }

  clear() {
    for (const part of this.parts.values()) part.node.remove();
    this.parts.clear();
  }
}

/** By how much an element is drawn larger than its own pixels say. */
function scaleOf(node) {
  return node.currentCSSZoom ?? 1;
}

function counted(amount, noun) {
  return `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
}

function bytes(amount) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = amount;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

function seconds(microseconds) {
  const value = microseconds / 1e6;
  if (value >= 100) return `${Math.round(value).toLocaleString("en")} s`;
  return value >= 1 || value === 0 ? `${Number(value.toFixed(2))} s` : `${Number((value * 1000).toPrecision(3))} ms`;
}

/** A custom property as a colour that canvas understands: the browser resolves mixes and references. */
function resolveColor(root, name) {
  const probe = el("i");
  probe.style.color = `var(${name})`;
  root.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function isDark(root) {
  const parts = getComputedStyle(root).backgroundColor.match(/[\d.]+/g)?.map(Number) ?? [255, 255, 255];
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] < 128;
}
