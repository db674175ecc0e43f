// The lines of the log view: a page, new ones as they are streamed, and older ones on request.
import { address, api } from "../api.js";
import { Observable } from "../observable.js";
import { Stream } from "../stream.js";

export const MOST = 2000; // lines in memory; the oldest are dropped first
const FIRST = 300;
const OLDER = 500;
const GATHERED = 100; // milliseconds in which lines are collected and then drawn together

/**
 * A line, or a gap: {number, gap}, where the gateway no longer has the lines.
 * `before` and `gone` count the lines that were ever added and removed at the start, so that the
 * view can keep its position.
 */
export class LogBook extends Observable {
  #filter = {};
  #stream;
  #last = null; // the number of the newest known line; null: nothing was loaded yet
  #coming = [];
  #timer = 0;
  #turn = 0; // the answer to an older request is ignored

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

  /** The view is paused; meanwhile only the gateway keeps new lines. */
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

  /** The page is hidden. */
  rest() {
    this.#stream.close();
    this.#flush();
  }

  /** The page is visible or the gateway is reachable again: failed requests are repeated. */
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
    if (entry.gap && (this.#coming.at(-1) ?? this.lines.at(-1))?.gap) return; // the same gap again
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
