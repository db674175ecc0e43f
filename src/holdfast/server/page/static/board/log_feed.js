// The lines of the log that are looked at: a page of them, those that come, and, when asked, older ones.
import { address, api } from "../api.js";
import { Observable } from "../observable.js";
import { Stream } from "../stream.js";

export const MOST = 2000; // lines that are held; the oldest go first
const FIRST = 300;
const OLDER = 500;
const GATHERED = 100; // milliseconds; lines that come together are drawn together

/**
 * A line, or a gap: {number, gap}, where the gateway says that it has not kept what was written there.
 * `before` and `gone` count what was ever put before the first line and taken from there, so that who
 * shows them can stay where they are.
 */
export class LogBook extends Observable {
  #filter = {};
  #stream;
  #last = null; // the number of the newest line that is known; null: none was loaded yet
  #coming = [];
  #timer = 0;
  #turn = 0; // an answer to an older question is not shown

  constructor() {
    super();
    this.#empty();
    this.paused = false;
    this.connected = true;
    this.#stream = new Stream({
      address: () => address.log({ ...this.#filter, after: this.#last }),
      events: ["line", "missed"],
      onEvent: (name, data) => this.#hear(name === "missed" ? { number: data.after, gap: true } : data),
      onState: (state) => this.#connection(state),
    });
  }

  async ask(filter) {
    this.#stream.close();
    this.#drop();
    this.#filter = filter;
    this.#last = null;
    this.#empty();
    this.changed();
    await this.#load();
  }

  /** What one reads stands still; nothing is held meanwhile but by the gateway. */
  pause() {
    this.paused = true;
    this.rest();
    this.changed();
  }

  goOn() {
    this.paused = false;
    this.wake();
    this.changed();
  }

  /** The page is not seen. */
  rest() {
    this.#stream.close();
    this.#flush();
  }

  /** It is seen again, or the gateway is there again: what could not be loaded is asked for once more. */
  wake() {
    if (this.paused || this.loading) return;
    if (this.#last === null) this.#load();
    else {
      this.#stream.open();
      this.#stream.hurry();
    }
  }

  close() {
    this.#turn += 1;
    this.#stream.close();
    this.#drop();
  }

  get fuller() {
    return this.more && this.lines.length < MOST;
  }

  async older() {
    if (this.loading || !this.fuller || !this.lines.length) return;
    await this.#asked({ before: this.lines[0].number, limit: Math.min(OLDER, MOST - this.lines.length) }, ({ lines, more }) => {
      this.lines = [...lines, ...this.lines];
      this.before += lines.length;
      this.more = more;
    });
  }

  async #load() {
    await this.#asked({ limit: FIRST }, ({ lines, more, newest }) => {
      Object.assign(this, { lines, more, loaded: true });
      this.#last = newest;
      if (!this.paused && !document.hidden) this.#stream.open();
    });
  }

  async #asked(more, take) {
    const mine = ++this.#turn;
    this.loading = true;
    try {
      const page = await api.log({ ...this.#filter, ...more });
      if (mine !== this.#turn) return;
      take(page);
      this.problem = "";
    } catch (failure) {
      if (mine !== this.#turn) return;
      this.problem = failure.message;
    }
    this.loading = false;
    this.changed();
  }

  #hear(entry) {
    if (entry.gap && (this.#coming.at(-1) ?? this.lines.at(-1))?.gap) return; // the same one, told again
    if (!entry.gap) this.#last = entry.number;
    this.#coming.push(entry);
    if (!this.#timer) this.#timer = setTimeout(() => this.#flush(), GATHERED);
  }

  #flush() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (!this.#coming.length) return;
    const all = [...this.lines, ...this.#coming];
    this.#coming = [];
    const over = Math.max(0, all.length - MOST);
    this.lines = over ? all.slice(over) : all;
    this.gone += over;
    if (over) this.more = true;
    this.changed();
  }

  #drop() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#coming = [];
  }

  #empty() {
    Object.assign(this, { lines: [], more: false, loaded: false, loading: false, problem: "", before: 0, gone: 0 });
  }

  #connection(state) {
    if (state === "connecting") return;
    this.connected = state === "open";
    this.changed();
  }
}
