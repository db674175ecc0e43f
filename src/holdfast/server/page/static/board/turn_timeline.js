// The course of a turn, loaded page by page, and read again where it can still change.
import { address, api } from "../api.js";
import { Observable } from "../observable.js";
import { Stream } from "../stream.js";

const PAGE = 200; // steps that are asked for at once
const MOST = 1000; // steps that are shown before somebody asks for more
const APART = 1500; // milliseconds between two looks at a turn that runs
const QUIETLY = 10_000; // while nothing is heard: a delivery settles without a word

/** `pages` in order; the first that is not settled is the first to be asked for again. */
export class TurnTimeline extends Observable {
  #id;
  #stream = null;
  #timer = 0;
  #looking = false;
  #again = false;
  #closed = false;
  #lookedAt = 0;
  #seen = () => (document.hidden ? this.#rest() : this.#soon());

  constructor(id) {
    super();
    this.#id = id;
    this.pages = [];
    this.problem = null;
    this.room = MOST;
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

  /** More steps are there than are loaded. */
  get more() {
    return this.last?.more ?? false;
  }

  get whole() {
    const spans = this.pages.flatMap((page) => page.spans);
    return this.last && { ...this.last, spans };
  }

  open() {
    document.addEventListener("visibilitychange", this.#seen);
    this.look();
  }

  close() {
    this.#closed = true;
    document.removeEventListener("visibilitychange", this.#seen);
    this.#rest();
  }

  showMore() {
    this.room += MOST;
    this.look();
  }

  /** One look at a time; whoever asks meanwhile has another behind it. */
  look() {
    if (this.#looking) this.#again = true;
    else this.#look();
  }

  async #look() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#lookedAt = Date.now();
    this.#looking = true;
    try {
      await this.#read();
      this.problem = null;
    } catch (failure) {
      this.problem = failure;
    }
    this.#looking = false;
    if (this.#closed) return;
    this.changed();
    this.#attend();
    if (this.#again) this.#soon();
    this.#again = false;
  }

  async #read() {
    const unsettled = this.pages.findIndex(({ more, spans }) => !more || spans.some(({ ended_at }) => ended_at === null));
    let place = unsettled < 0 ? this.pages.length : unsettled;
    for (let more = true; more && !this.#closed; place += 1) {
      const page = await api.turn(this.#id, { after: this.#after(place), limit: PAGE });
      this.pages[place] = page;
      more = page.more && (place + 1) * PAGE < this.room;
    }
    this.pages.length = place;
  }

  #after(place) {
    const before = place && this.pages[place - 1].spans;
    return before ? Math.max(0, ...before.map(({ step }) => step ?? 0)) : 0;
  }

  /** While it runs its session's stream says when to look; afterwards only deliveries can change. */
  #attend() {
    if (document.hidden) return;
    if (this.running) this.#listen();
    else this.#hangUp();
    const owed = this.last?.deliveries.some(({ state }) => !["sent", "failed", "unknown"].includes(state));
    if (!this.#timer && (this.running || owed || this.problem?.temporary)) this.#timer = setTimeout(() => this.look(), QUIETLY);
  }

  #listen() {
    if (this.#stream) return;
    this.#stream = new Stream({
      // From the end of time on: what is said is nothing to this, only that something was.
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
    this.#timer = setTimeout(() => this.look(), Math.max(0, this.#lookedAt + APART - Date.now()));
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
