// The word that something happened at the gateway, for views that ask what: passed on in measure,
// for a busy gateway would else be asked as often as it answers others.
import { Observable } from "./observable.js";

const SELDOM = 5000; // milliseconds between two words about messages

export class ChangeNotifier extends Observable {
  #timer = 0;
  #told = 0;

  constructor() {
    super();
    this.last = 0; // how often it was passed on
  }

  /** `soon`: at once, for what is rare and is waited for. */
  tell({ soon = false } = {}) {
    if (soon) this.#pass();
    else if (!this.#timer) {
      const wait = Math.max(0, this.#told + SELDOM - Date.now());
      this.#timer = setTimeout(() => this.#pass(), wait);
    }
  }

  #pass() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#told = Date.now();
    this.last += 1;
    this.changed();
  }
}
