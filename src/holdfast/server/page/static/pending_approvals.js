// The approvals that are pending, in all chats: the list of chats and the navigation show them.
import { api } from "./api.js";
import { Observable } from "./observable.js";

const EVERY = 20_000; // milliseconds; no event announces the approval request of a subagent
const MOST = 100;

export class PendingApprovals extends Observable {
  #asked = 0;

  /** `polls()`: whether to request without an event. */
  constructor(changes, polls) {
    super();
    this.number = 0;
    this.asking = new Set(); // ids of the sessions in which they can be answered
    changes.subscribe(() => this.load());
    setInterval(() => polls() && this.load(), EVERY);
  }

  async load() {
    const mine = ++this.#asked;
    try {
      const found = await api.approvals({ pending: true, limit: MOST });
      if (mine !== this.#asked) return; // the answer to an older request
      this.number = found.length;
      this.asking = new Set(found.map(({ asked_in }) => asked_in));
      this.changed();
    } catch {
      // The next event or the next poll requests them again.
    }
  }
}
