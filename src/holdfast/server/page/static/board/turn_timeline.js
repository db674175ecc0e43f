// The timeline of a turn, loaded page by page, and reloaded where it can still change.
import { address, api } from "../api.js";
import { Observable } from "../observable.js";
import { Stream } from "../stream.js";

const PAGE = 200; // steps in one request
const MAX_STEPS = 1000; // steps that are shown before "Show more"
const REFRESH_INTERVAL = 1500; // milliseconds between two requests for a running turn
const IDLE_INTERVAL = 10_000; // milliseconds without events: no event announces a delivery

/** `pages` in order; reloading starts at the first page that can still change. */
export class TurnTimeline extends Observable {
  #id;
  #stream = null;
  #timer = 0;
  #loading = false;
  #again = false;
  #closed = false;
  #loadedAt = 0;
  #seen = () => (document.hidden ? this.#rest() : this.#soon());

  constructor(id) {
    super();
    this.#id = id;
    this.pages = [];
    this.problem = null;
    this.room = MAX_STEPS;
  }

  get last() {
    return this.pages.at(-1) ?? null;
  }

  get turn() {
    return this.last?.turn ?? null;
  }

  get running() {
    return this.turn !== null && this.turn.ended_at === null;
  }

  /** There are more steps than are loaded. */
  get more() {
    return this.last?.more ?? false;
  }

  get loaded() {
    const spans = this.pages.flatMap((page) => page.spans);
    return this.last && { ...this.last, spans };
  }

  open() {
    document.addEventListener("visibilitychange", this.#seen);
    this.refresh();
  }

  close() {
    this.#closed = true;
    document.removeEventListener("visibilitychange", this.#seen);
    this.#rest();
  }

  showMore() {
    this.room += MAX_STEPS;
    this.refresh();
  }

  /** One request at a time; a call during a request causes another one. */
  refresh() {
    if (this.#loading) this.#again = true;
    else this.#load();
  }

  async #load() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#loadedAt = Date.now();
    this.#loading = true;
    try {
      await this.#read();
      this.problem = null;
    } catch (failure) {
      this.problem = failure;
    }
    this.#loading = false;
    if (this.#closed) return;
    this.changed();
    this.#attend();
    if (this.#again) this.#soon();
    this.#again = false;
  }

  async #read() {
    const unsettled = this.pages.findIndex(({ more, spans }) => !more || spans.some(({ ended_at }) => ended_at === null));
    let index = unsettled < 0 ? this.pages.length : unsettled;
    for (let more = true; more && !this.#closed; index += 1) {
      const page = await api.turn(this.#id, { after: this.#after(index), limit: PAGE });
      this.pages[index] = page;
      more = page.more && (index + 1) * PAGE < this.room;
    }
    this.pages.length = index;
  }

  #after(index) {
    const before = index && this.pages[index - 1].spans;
    return before ? Math.max(0, ...before.map(({ step }) => step ?? 0)) : 0;
  }

  /** While it runs, the stream of its session triggers a refresh; afterwards only deliveries can change. */
  #attend() {
    if (document.hidden) return;
    if (this.running) this.#listen();
    else this.#hangUp();
    const unsettled = this.last?.deliveries.some(({ state }) => !["sent", "failed", "unknown"].includes(state));
    if (!this.#timer && (this.running || unsettled || this.problem?.temporary)) this.#timer = setTimeout(() => this.refresh(), IDLE_INTERVAL);
  }

  #listen() {
    if (this.#stream) return;
    this.#stream = new Stream({
      // No records are needed, only the fact that something changed.
      address: () => address.session(this.turn.session_id, Number.MAX_SAFE_INTEGER),
      events: ["live", "session", "ended"],
      onEvent: () => this.#soon(),
      onState: () => null,
    });
    this.#stream.open();
  }

  #soon() {
    if (this.#closed || document.hidden) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.refresh(), Math.max(0, this.#loadedAt + REFRESH_INTERVAL - Date.now()));
  }

  #hangUp() {
    this.#stream?.close();
    this.#stream = null;
  }

  #rest() {
    this.#hangUp();
    clearTimeout(this.#timer);
    this.#timer = 0;
  }
}
