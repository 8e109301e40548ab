// Definitions of terms: a term in a text is a link to the glossary, and this shows its definition under the pointer,
// at the focus of the keyboard, and on a tap. A screen reader hears it as the link's description.
const TERM = 'a[href^="glossary?term="]';
const MARK = "__tickscopeTerms";
const WAIT_MS = 120;
/** Time to move the pointer from the term to its card. */
const GRACE_MS = 180;
const MARGIN = 8;

function node(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function keyOf(link) {
  return new URLSearchParams(link.getAttribute("href").split("?")[1]).get("term");
}

class Terms {
  constructor(parent) {
    this.parent = parent;
    this.terms = {};
    this.name = node("strong");
    this.text = node("p");
    this.more = node("a", { target: "_blank", rel: "noopener", tabindex: "-1" }, "All terms ›");
    this.card = node("div", { class: "ts-term-card", hidden: "" });
    this.card.append(this.name, this.text, this.more);
    this.heard = node("div", { hidden: "" });
    parent.append(this.card, this.heard);
    this.listen();
  }

  listen() {
    this.abort = new AbortController();
    const { signal } = this.abort;
    const on = (name, act) => document.addEventListener(name, act, { signal, capture: true });
    on("pointerdown", (event) => this.press(event));
    on("pointerover", (event) => event.pointerType !== "touch" && this.point(event.target));
    on("focusin", (event) => event.target.matches?.(`${TERM}:focus-visible`) && this.show(event.target));
    on("focusout", () => this.hide());
    on("keydown", (event) => this.key(event));
    on("click", (event) => this.click(event));
    on("scroll", () => this.hide());
    // Texts come and go with the page; the stage has a tree of its own, whose changes are not heard here.
    this.watch = new MutationObserver(() => this.describeSoon());
    this.watch.observe(document.body, { childList: true, subtree: true });
  }

  destroy() {
    this.abort.abort();
    this.watch.disconnect();
    clearTimeout(this.timer);
    this.card.remove();
    this.heard.remove();
  }

  update(terms) {
    if (JSON.stringify(terms) === JSON.stringify(this.terms)) return;
    this.terms = terms;
    this.heard.replaceChildren(...Object.entries(terms).map(([key, { text }]) => node("span", { id: `ts-term-${key}` }, text)));
    this.describe();
  }

  describeSoon() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.describe());
  }

  describe() {
    this.frame = null;
    for (const link of document.querySelectorAll(`${TERM}:not([aria-describedby])`)) link.setAttribute("aria-describedby", `ts-term-${keyOf(link)}`);
  }

  /** Under the pointer: a term shows its card after a moment, and the card stays while the pointer is on it. */
  point(target) {
    if (!(target instanceof Element)) return;
    const link = target.closest(TERM);
    if (link === this.shown && link) return clearTimeout(this.timer);
    if (this.card.contains(target)) return clearTimeout(this.timer);
    clearTimeout(this.timer);
    if (link) this.timer = setTimeout(() => this.show(link), WAIT_MS);
    else if (this.shown && !this.shown.matches(":focus-visible")) this.timer = setTimeout(() => this.hide(), GRACE_MS);
    return undefined;
  }

  press(event) {
    this.isTouch = event.pointerType === "touch";
    if (!(event.target instanceof Element) || (!event.target.closest(TERM) && !this.card.contains(event.target))) this.hide();
  }

  /** A tap shows the definition, for there is no pointer to rest on the term; a click follows the link. */
  click(event) {
    const link = event.target instanceof Element && event.target.closest(TERM);
    if (!link || !this.isTouch) return;
    event.preventDefault();
    if (this.shown === link) this.hide();
    else this.show(link);
  }

  key(event) {
    this.isTouch = false;
    if (event.key === "Escape" && this.shown) this.hide();
  }

  show(link) {
    const term = this.terms[keyOf(link)];
    if (!term || !link.isConnected) return;
    clearTimeout(this.timer);
    this.shown = link;
    this.name.textContent = term.name;
    this.text.textContent = term.text;
    this.more.setAttribute("href", link.getAttribute("href"));
    this.card.hidden = false;
    this.place(link.getClientRects()[0]);
  }

  /** Under the term where there is room, else above it. */
  place(box) {
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const left = Math.max(MARGIN, Math.min(box.left + box.width / 2 - width / 2, window.innerWidth - width - MARGIN));
    const below = box.bottom + MARGIN;
    const top = below + height + MARGIN <= window.innerHeight ? below : Math.max(MARGIN, box.top - height - MARGIN);
    this.card.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  hide() {
    clearTimeout(this.timer);
    this.card.hidden = true;
    this.shown = null;
  }
}

export default function ({ data, parentElement }) {
  if (parentElement[MARK]?.parent !== parentElement) parentElement[MARK] = new Terms(parentElement);
  const held = parentElement[MARK];
  held.turn = (held.turn ?? 0) + 1;
  const { turn } = held;
  held.update(data.terms);
  return () => {
    if (held.turn !== turn) return;
    held.destroy();
    delete parentElement[MARK];
  };
}
