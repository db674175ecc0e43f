// The list of chats: the newest first, updated by the gateway's stream of changes.
import { address, api } from "./api.js";
import { Observable } from "./observable.js";
import { Stream } from "./stream.js";

const PAGE = 60;

export class Chats extends Observable {
  #stream;
  #searched = 0;

  constructor({ onState, onGateway, onSession, onAudit }) {
    super();
    this.sessions = [];
    this.more = false;
    this.loaded = false;
    this.query = "";
    this.found = null; // null: not searching; else {sessions, messages}
    this.#stream = new Stream({
      address: () => address.events(),
      events: ["session", "deleted", "gateway", "audit"],
      onEvent: (name, data) => {
        if (name === "audit") return onAudit();
        if (name === "gateway") onGateway(data);
        else if (name === "deleted") this.forget(data.id);
        else this.put(data);
        if (name !== "gateway") onSession(name, data);
      },
      onState: (state) => {
        onState(state);
        if (state === "open") this.load();
      },
    });
  }

  open() {
    this.#stream.open();
    this.#stream.hurry();
  }

  close() {
    this.#stream.close();
  }

  async load() {
    try {
      const { sessions, more } = await api.sessions({ limit: Math.max(PAGE, this.sessions.length) });
      this.sessions = sessions.sort(newestFirst);
      this.more = more;
      this.loaded = true;
      this.changed();
    } catch {
      // The stream's next opening loads it.
    }
  }

  async loadMore() {
    const { sessions, more } = await api.sessions({ limit: PAGE, offset: this.sessions.length });
    const known = new Set(this.sessions.map(({ id }) => id));
    this.sessions = [...this.sessions, ...sessions.filter(({ id }) => !known.has(id))];
    this.more = more;
    this.changed();
  }

  put(session) {
    const rest = this.sessions.filter(({ id }) => id !== session.id);
    this.sessions = [session, ...rest].sort(newestFirst);
    this.changed();
  }

  forget(sessionId) {
    this.sessions = this.sessions.filter(({ id }) => id !== sessionId);
    this.changed();
  }

  /** Searches titles and messages; the answer to an older query never replaces that to a newer one. */
  async search(query) {
    this.query = query;
    const asked = ++this.#searched;
    if (!query.trim()) this.found = null;
    this.changed();
    if (!query.trim()) return;
    const [titles, messages] = await Promise.allSettled([
      api.sessions({ q: query, limit: 20 }),
      api.search(query),
    ]);
    if (asked !== this.#searched) return;
    this.found = {
      sessions: titles.status === "fulfilled" ? titles.value.sessions : [],
      messages: messages.status === "fulfilled" ? messages.value : [],
      failed: messages.status === "rejected" && titles.status === "rejected",
    };
    this.changed();
  }
}

const newestFirst = (one, other) => other.active_at - one.active_at;
