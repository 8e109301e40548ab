// Takes files dropped anywhere on the page: shows where they will go, and hands them to the uploader that is not shown.
const MARK = "__tickscopeDrop";
const SAID_FOR = 5000;
/** The uploader's own script may come after the page: so often, and so far apart, it is looked for. */
const LOOKS = 50;
const LOOK_MS = 200;

function holdsFiles(event) {
  return Array.from(event.dataTransfer?.types ?? []).includes("Files");
}

/** Streamlit's own fields take their drops themselves. */
function isForField(event) {
  return event.composedPath().some((node) => node.dataset?.testid === "stFileUploaderDropzone");
}

class Net {
  constructor() {
    this.depth = 0;
    this.on = {
      dragenter: (event) => this.enter(event),
      dragover: (event) => this.over(event),
      dragleave: (event) => this.leave(event),
      drop: (event) => this.drop(event),
    };
    for (const [name, handle] of Object.entries(this.on)) window.addEventListener(name, handle);
  }

  end() {
    for (const [name, handle] of Object.entries(this.on)) window.removeEventListener(name, handle);
    this.veil?.remove();
  }

  /** The newest page's words, limits and place to stand in. */
  serve(data, root) {
    this.data = data;
    if (!this.veil?.isConnected) {
      this.veil = document.createElement("div");
      this.veil.className = "veil";
      this.veil.setAttribute("role", "status");
      this.veil.hidden = true;
      root.append(this.veil);
    }
  }

  say(words, isWrong = false) {
    clearTimeout(this.timer);
    const card = document.createElement("p");
    card.textContent = words;
    this.veil.replaceChildren(card);
    this.veil.classList.toggle("wrong", isWrong);
    this.veil.hidden = false;
  }

  hide() {
    this.veil.hidden = true;
    this.veil.replaceChildren();
  }

  /** A page that was left may leave its net behind: that one takes nothing more. */
  takes(event) {
    if (!this.veil.isConnected) this.end();
    return this.veil.isConnected && holdsFiles(event);
  }

  enter(event) {
    if (!this.takes(event)) return;
    this.depth += 1;
    if (!isForField(event)) this.say(this.data.words);
  }

  over(event) {
    if (this.takes(event) && !isForField(event)) event.preventDefault();
  }

  leave(event) {
    if (!this.takes(event)) return;
    this.depth = Math.max(0, this.depth - 1);
    if (this.depth === 0) this.hide();
  }

  drop(event) {
    this.depth = 0;
    if (!this.takes(event)) return;
    this.hide();
    if (isForField(event)) return;
    event.preventDefault();
    const files = Array.from(event.dataTransfer.files);
    const problem = this.problem(files);
    if (problem) this.complain(problem);
    else this.hand(files[0], LOOKS);
  }

  /** Gives it to the uploader, also where the page is drawn anew meanwhile. */
  hand(file, looks) {
    const input = document.querySelector('.st-key-drop_anywhere input[type="file"]');
    if (!input && looks) {
      setTimeout(() => this.hand(file, looks - 1), LOOK_MS);
    } else if (!input) {
      this.complain(`“${file.name}” could not be taken: this page has not loaded. Reload it, and drop the file again.`);
    } else {
      const carrier = new DataTransfer();
      carrier.items.add(file);
      input.files = carrier.files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    }
  }

  /** Says what went wrong, long enough to be read. */
  complain(problem) {
    this.say(problem, true);
    this.timer = setTimeout(() => this.hide(), SAID_FOR);
  }

  problem(files) {
    if (files.length !== 1) return `${files.length} files were dropped; drop one.`;
    const [file] = files;
    const name = file.name.toLowerCase();
    if (!this.data.endings.some((ending) => name.endsWith(ending))) {
      return `“${file.name}” cannot be opened here. ${this.data.words}`;
    }
    const most = this.data.most;
    if (file.size > most) {
      const size = (file.size / 2 ** 20).toFixed(1);
      return `“${file.name}” has ${size} MiB; at most ${most / 2 ** 20} MiB are taken. Save fewer ticks.`;
    }
    return "";
  }
}

export default function ({ data, parentElement }) {
  if (!data) return undefined;
  // One net a window: a newer script replaces an older one.
  window[MARK]?.end();
  const net = new Net();
  window[MARK] = net;
  net.serve(data, parentElement);
  return () => {
    net.end();
    if (window[MARK] === net) delete window[MARK];
  };
}
