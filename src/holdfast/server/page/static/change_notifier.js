// Notifies views that something changed at the gateway, so that they ask what: rate-limited, because
// a busy gateway would otherwise be asked as often as it answers others.
import { Observable } from "./observable.js";

const SELDOM = 5000; // milliseconds between two notifications about messages

export class ChangeNotifier extends Observable {
  #timer = 0;
  #notifiedAt = 0;

  constructor() {
    super();
    this.last = 0; // how often views were notified
  }

  /** `soon`: at once, for what is rare and awaited. */
  notify({ soon = false } = {}) {
    if (soon) this.#emit();
    else if (!this.#timer) {
      const wait = Math.max(0, this.#notifiedAt + SELDOM - Date.now());
      this.#timer = setTimeout(() => this.#emit(), wait);
    }
  }

  #emit() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#notifiedAt = Date.now();
    this.last += 1;
    this.changed();
  }
}
