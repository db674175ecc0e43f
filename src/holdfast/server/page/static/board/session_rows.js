// The rows of the list of sessions: loaded page by page, and kept as the gateway's stream says.
import { api } from "../api.js";
import { Observable } from "../observable.js";

const PAGE = 100;
const MOST_ASKED = 50; // sessions that are asked for again at once: an address has room for no more

/**
 * What the stream says of a session is shown at once; what it does not say (the last words, tokens,
 * whether a session is still among those that are asked for) is asked for of those alone that have
 * changed, as seldom as the dashboard asks for anything.
 */
export class SessionRows extends Observable {
  #page;
  #asked = null;
  #changed = new Set(); // ids of which the stream has said something
  #told = new Map(); // what it said, until the next frame
  #frame = 0;
  #turn = 0; // an answer to an older question is not shown
  #loading = null;

  constructor(page) {
    super();
    this.#page = page;
    this.rows = [];
    this.next = null;
    this.loaded = false;
    this.problem = "";
    this.scroll = 0; // where one was in it
    this.platforms = new Set(); // that were seen, also such as are not configured any more
    page.onSession((name, data) => this.#hear(name, data));
  }

  get more() {
    return this.next !== null;
  }

  /** Other sessions than before, or the same again, as they are now. */
  async ask(asked) {
    const same = this.#asked && JSON.stringify(this.#asked) === JSON.stringify(asked);
    this.#asked = asked;
    if (!same) {
      this.rows = [];
      this.next = null;
      this.loaded = false;
      this.scroll = 0;
      this.changed();
    }
    await this.#load({ first: true });
  }

  /** The page behind those that are here; once, however often it is asked for. */
  loadMore() {
    if (!this.more) return null;
    this.#loading ??= this.#load({ first: false }).finally(() => (this.#loading = null));
    return this.#loading;
  }

  /** What has changed since, as the gateway has it. */
  async freshen() {
    if (!this.loaded || !this.#changed.size) return;
    const ids = [...this.#changed].slice(0, MOST_ASKED);
    ids.forEach((id) => this.#changed.delete(id));
    const mine = this.#turn;
    try {
      const { sessions } = await api.sessions({ ...this.#asked, ids: ids.join(), limit: MOST_ASKED, summary: true });
      if (mine === this.#turn) this.#put(sessions, ids);
    } catch {
      ids.forEach((id) => this.#changed.add(id)); // the next word asks again
    }
  }

  async #load({ first }) {
    const mine = first ? ++this.#turn : this.#turn;
    try {
      const place = first ? {} : { after: this.next };
      const { sessions, next } = await api.sessions({ ...this.#asked, ...place, limit: PAGE, summary: true });
      if (mine !== this.#turn) return;
      this.problem = "";
      // Those that were loaded before stay: whoever comes back finds the place where they were.
      if (!first || !this.loaded) this.next = next;
      this.loaded = true;
      this.#put(sessions, []);
    } catch (failure) {
      if (mine !== this.#turn) return;
      this.problem = failure.message;
      this.changed();
    }
  }

  #hear(name, data) {
    if (name === "deleted") this.#told.set(data.id, null);
    else {
      this.#told.set(data.id, data);
      this.#changed.add(data.id);
    }
    this.#frame ||= setTimeout(() => this.#show(), 100);
  }

  /** Those that are here, as the stream tells of them; a busy gateway draws no more often for it. */
  #show() {
    this.#frame = 0;
    const told = this.#told;
    this.#told = new Map();
    const here = this.rows.filter(({ id }) => told.get(id));
    const gone = [...told].filter(([, session]) => session === null).map(([id]) => id);
    if (!here.length && !gone.length) return;
    this.#put(here.map((row) => ({ ...told.get(row.id), summary: row.summary })), gone);
  }

  /** `asked`: of these, the ones that have not come are not among those that are wanted any more. */
  #put(sessions, asked) {
    for (const { platform } of sessions) this.platforms.add(platform);
    const moved = new Set([...asked, ...sessions.map(({ id }) => id)]);
    const rest = this.rows.filter(({ id }) => !moved.has(id));
    const last = this.more ? rest.at(-1) : null;
    // What lies behind the last that is loaded comes with its own page.
    const fitting = last ? sessions.filter((row) => order(row, last) < 0 || !asked.length) : sessions;
    this.rows = merged(fitting.sort(order), rest);
    this.changed();
  }
}

const order = (one, other) => other.active_at - one.active_at || (one.id < other.id ? -1 : 1);

/** Two lists that are in order as one: a page of many does not sort all that came before it. */
function merged(one, other) {
  const all = [];
  let [n, m] = [0, 0];
  while (n < one.length && m < other.length) all.push(order(one[n], other[m]) < 0 ? one[n++] : other[m++]);
  return [...all, ...one.slice(n), ...other.slice(m)];
}
