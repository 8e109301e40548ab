// The text of a request as chips. Every piece of text enters by textContent. The chips are one stop of the Tab key;
// arrows move between them, and what is under the pointer or has the focus is explained in the line below.
const KINDS = { cached: "from the prefix cache", computed: "computed", generated: "generated", todo: "not read yet" };

function node(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function shown(text) {
  const visible = text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll("\r", "␍");
  return visible === "" ? "∅" : visible;
}

function chip(item, position) {
  const [text, kind, tick] = item;
  const made = node("span", `chip ${kind}`, shown(text));
  const when = tick === null ? "" : `, tick ${tick}`;
  made.setAttribute("role", "listitem");
  made.setAttribute("aria-label", `${shown(text)}: ${KINDS[kind]}${when}`);
  made.tabIndex = -1;
  made.dataset.position = String(position);
  return made;
}

function candidates(top) {
  const list = node("ol", "top");
  for (const [text, prob] of top) {
    const row = node("li");
    const bar = node("span", "bar");
    bar.style.setProperty("--part", `${(prob * 100).toFixed(2)}%`);
    row.append(node("span", "candidate", shown(text)), bar, node("span", "percent", `${(prob * 100).toFixed(1)} %`));
    list.append(row);
  }
  return list;
}

function explain(line, item, position) {
  const [text, kind, tick, top] = item;
  const when = tick === null ? "" : ` in tick ${tick}`;
  const head = node("div", "what");
  head.append(node("span", `chip ${kind}`, shown(text)), node("span", "", ` token ${position + 1}, ${KINDS[kind]}${when}`));
  line.replaceChildren(head);
  if (top && top.length) line.append(candidates(top));
}

function fill(root, data) {
  const all = [];
  const line = node("div", "line");
  line.setAttribute("aria-live", "polite");
  line.append(node("div", "what", "Point at a token, or move through them with the arrow keys."));
  root.replaceChildren();
  for (const [title, items] of [["Prompt", data.prompt], ["Answer", data.output]]) {
    root.append(node("h3", "", `${title} · ${items.length} ${items.length === 1 ? "token" : "tokens"}`));
    const list = node("div", "chips");
    list.setAttribute("role", "list");
    list.setAttribute("aria-label", title);
    for (const item of items) {
      const made = chip(item, items.indexOf(item));
      all.push([made, item]);
      list.append(made);
    }
    if (!items.length) list.append(node("span", "none", "nothing yet"));
    if (!items.length) list.removeAttribute("role");
    if (!items.length) list.removeAttribute("aria-label");
    root.append(list);
  }
  root.append(line);
  const tell = (event) => {
    const found = all.findIndex(([made]) => made === event.target);
    if (found >= 0) explain(line, all[found][1], Number(all[found][0].dataset.position));
  };
  root.onpointerover = tell;
  root.onfocusin = tell;
  root.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = all.findIndex(([made]) => made === event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)][0];
    all[at][0].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  };
  if (all.length) all[0][0].tabIndex = 0;
}

export default function ({ parentElement, data }) {
  let root = parentElement.querySelector(".tokens");
  if (!root) {
    root = node("div", "tokens");
    parentElement.append(root);
  }
  const signature = JSON.stringify(data);
  if (root.signature === signature) return;
  root.signature = signature;
  fill(root, data);
}
