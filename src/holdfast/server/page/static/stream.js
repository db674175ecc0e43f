// A stream of server-sent events that reconnects by itself and continues where it was.
const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;

/**
 * `address()` is called at each try, so that it can name the last event. `events` are the names to
 * listen to; each goes to `onEvent(name, data)`. `onState` gets "connecting", "open", "waiting".
 */
export class Stream {
  #source = null;
  #timer = 0;
  #wait = FIRST_WAIT;

  constructor({ address, events, onEvent, onState }) {
    this.address = address;
    this.events = events;
    this.onEvent = onEvent;
    this.onState = onState;
  }

  open() {
    if (this.#source || this.#timer) return;
    this.onState("connecting");
    const source = new EventSource(this.address());
    this.#source = source;
    source.onopen = () => {
      this.#wait = FIRST_WAIT;
      this.onState("open");
    };
    // The browser's own reconnect has no backoff, and gives up for good on an answer
    // like 503, which a starting gateway gives.
    source.onerror = () => this.#later();
    for (const name of this.events) {
      source.addEventListener(name, (event) => this.onEvent(name, JSON.parse(event.data)));
    }
  }

  close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#source?.close();
    this.#source = null;
  }

  /** Reconnects at once: the network is back, or the page is visible again. */
  hurry() {
    if (!this.#timer) return;
    this.close();
    this.open();
  }

  again() {
    this.close();
    this.open();
  }

  #later() {
    this.close();
    this.onState("waiting");
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.open();
    }, this.#wait);
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
  }
}
