// The rows of the list of sessions: loaded page by page, and updated by the gateway's stream.
import { api } from "../api.js";
import { Observable } from "../observable.js";

const PAGE = 100;
const MAX_IDS = 50; // sessions in one request: an address has room for no more

/**
 * Streamed changes of a session are shown at once; what the stream does not have (last text, tokens,
 * whether a session still matches the query) is requested only for the sessions that have
 * changed, as rarely as the dashboard polls.
 */
export class SessionRows extends Observable {
  #page;
  #query = null;
  #changed = new Set(); // ids of sessions that the stream announced
  #updates = new Map(); // streamed sessions until the next frame
  #frame = 0;
  #turn = 0; // the answer to an older request is ignored
  #loading = null;

  constructor(page) {
    super();
    this.#page = page;
    this.rows = [];
    this.next = null;
    this.loaded = false;
    this.problem = "";
    this.scroll = 0; // the scroll position
    this.platforms = new Set(); // platforms of all rows, also those that are no longer configured
    page.onSession((name, data) => this.#onSession(name, data));
  }

  get more() {
    return this.next !== null;
  }

  /** Loads the first page of this query. */
  async load(query) {
    const same = this.#query && JSON.stringify(this.#query) === JSON.stringify(query);
    this.#query = query;
    if (!same) {
      this.rows = [];
      this.next = null;
      this.loaded = false;
      this.scroll = 0;
      this.changed();
    }
    await this.#load({ first: true });
  }

  /** Loads the next page; only one request at a time. */
  loadMore() {
    if (!this.more) return null;
    this.#loading ??= this.#load({ first: false }).finally(() => (this.#loading = null));
    return this.#loading;
  }

  /** Requests the sessions that have changed. */
  async freshen() {
    if (!this.loaded || !this.#changed.size) return;
    const ids = [...this.#changed].slice(0, MAX_IDS);
    ids.forEach((id) => this.#changed.delete(id));
    const mine = this.#turn;
    try {
      const { sessions } = await api.sessions({ ...this.#query, ids: ids.join(), limit: MAX_IDS, summary: true });
      if (mine === this.#turn) this.#merge(sessions, ids);
    } catch {
      ids.forEach((id) => this.#changed.add(id)); // the next event repeats it
    }
  }

  async #load({ first }) {
    const mine = first ? ++this.#turn : this.#turn;
    try {
      const cursor = first ? {} : { after: this.next };
      const { sessions, next } = await api.sessions({ ...this.#query, ...cursor, limit: PAGE, summary: true });
      if (mine !== this.#turn) return;
      this.problem = "";
      // Loaded rows stay, so that going back restores the position.
      if (!first || !this.loaded) this.next = next;
      this.loaded = true;
      this.#merge(sessions, []);
    } catch (failure) {
      if (mine !== this.#turn) return;
      this.problem = failure.message;
      this.changed();
    }
  }

  #onSession(name, data) {
    if (name === "deleted") this.#updates.set(data.id, null);
    else {
      this.#updates.set(data.id, data);
      this.#changed.add(data.id);
    }
    this.#frame ||= setTimeout(() => this.#show(), 100);
  }

  /** Applies the streamed changes to loaded rows; a busy gateway causes no more drawing. */
  #show() {
    this.#frame = 0;
    const updates = this.#updates;
    this.#updates = new Map();
    const here = this.rows.filter(({ id }) => updates.get(id));
    const gone = [...updates].filter(([, session]) => session === null).map(([id]) => id);
    if (!here.length && !gone.length) return;
    this.#merge(here.map((row) => ({ ...updates.get(row.id), summary: row.summary })), gone);
  }

  /** `query`: ids that were requested; those without a row no longer match. */
  #merge(sessions, query) {
    for (const { platform } of sessions) this.platforms.add(platform);
    const moved = new Set([...query, ...sessions.map(({ id }) => id)]);
    const rest = this.rows.filter(({ id }) => !moved.has(id));
    const last = this.more ? rest.at(-1) : null;
    // Rows behind the last loaded one come with their own page.
    const fitting = last ? sessions.filter((row) => order(row, last) < 0 || !query.length) : sessions;
    this.rows = merged(fitting.sort(order), rest);
    this.changed();
  }
}

const order = (one, other) => other.active_at - one.active_at || (one.id < other.id ? -1 : 1);

/** Merges two sorted lists, so that a new page does not sort all rows again. */
function merged(one, other) {
  const all = [];
  let [n, m] = [0, 0];
  while (n < one.length && m < other.length) all.push(order(one[n], other[m]) < 0 ? one[n++] : other[m++]);
  return [...all, ...one.slice(n), ...other.slice(m)];
}
