// What was written here and is not in a transcript yet: kept until it is, across any reload.
import { api } from "./api.js";
import { forget, recallAll, remember } from "./local_storage.js";
import { Observable } from "./observable.js";

const AGAIN = 3000; // milliseconds, where the gateway is there and takes nothing just now

/**
 * An entry: `message_id` (ours, so that sending twice is sending once), `session` (null until a
 * new chat has one; `name` finds it again), `text`, `mode`, `attachments`, `at`, and
 * `state`: "unsent" (with `why`, where the gateway says so) → "accepted" (with the gateway's `id`),
 * or "refused" (with `error`).
 */
export class Outbox extends Observable {
  #sending = null;

  constructor({ onSession, onAccepted }) {
    super();
    // A key for each, so that two tabs do not write over what the other has to send.
    this.entries = recallAll("outbox.").sort((one, other) => one.at - other.at);
    this.onSession = onSession;
    this.onAccepted = onAccepted;
  }

  of(session, name) {
    const ours = (entry) => (session ? entry.session === session : entry.name === name);
    return this.entries.filter(ours);
  }

  add({ session = null, name = null, text, mode = null, attachments = [] }) {
    const entry = {
      message_id: crypto.randomUUID?.() ?? randomId(),
      session, name, text, mode, attachments,
      at: Date.now() / 1000,
      state: "unsent",
    };
    this.entries = [...this.entries, entry];
    this.#keep(entry);
    this.flush();
    return entry;
  }

  drop(...gone) {
    const left = this.entries.filter((entry) => !gone.includes(entry.message_id));
    if (left.length === this.entries.length) return;
    this.entries = left;
    gone.forEach((id) => forget(`outbox.${id}`));
    this.changed();
  }

  retry(message_id) {
    this.#change(message_id, { state: "unsent", error: undefined });
    this.flush();
  }

  /** Sends what waits, in order; whoever calls meanwhile waits for the same run. */
  flush() {
    this.#sending ??= this.#send().finally(() => (this.#sending = null));
    return this.#sending;
  }

  /** What was accepted and has ended meanwhile, with its end; it is no longer on its way. */
  async reconcile(session) {
    const over = [];
    for (const entry of this.of(session)) {
      if (entry.state !== "accepted") continue;
      try {
        const message = await api.message(entry.id);
        if (message.state === "queued") continue;
        // Whoever else heard of its end has dropped it, and told it.
        if (this.entries.some((each) => each.message_id === entry.message_id)) over.push({ entry, message });
        this.drop(entry.message_id);
      } catch (failure) {
        if (failure.temporary) return over;
        this.drop(entry.message_id);
      }
    }
    return over;
  }

  async #send() {
    // Looked up again after each: entries come and go while one is on its way.
    for (let entry; (entry = this.entries.find((each) => each.state === "unsent")); ) {
      try {
        await this.#deliver(entry);
      } catch (failure) {
        if (failure.temporary) this.#wait(entry, failure);
        if (failure.temporary || failure.unauthenticated) return;
        if (failure.code === "message_id_reused") this.drop(entry.message_id); // it is there
        else this.#change(entry.message_id, { state: "refused", error: failure.message });
      }
    }
  }

  /** Tried again by itself. A gateway that is there and whose store takes nothing says why. */
  #wait({ message_id, why }, { code, message }) {
    const said = code === "store_unavailable" ? message : undefined;
    if (said !== why) this.#change(message_id, { why: said });
    setTimeout(() => this.flush(), AGAIN);
  }

  async #deliver(entry) {
    if (!entry.session) {
      const session = await api.open(entry.name);
      for (const each of this.of(null, entry.name)) {
        this.#change(each.message_id, { session: session.id });
      }
      entry = this.entries.find((each) => each.message_id === entry.message_id) ?? entry;
      this.onSession(entry.name, session);
    }
    const { message_id, text, mode, attachments } = entry;
    const said = await api.sendMessage(entry.session, { message_id, text, mode, attachments });
    const known = said.duplicate && said.state !== "queued";
    if (known) this.drop(message_id);
    else this.#change(message_id, { state: "accepted", id: said.id });
    this.onAccepted(entry.session, said);
  }

  #change(message_id, change) {
    const place = this.entries.findIndex((entry) => entry.message_id === message_id);
    if (place < 0) return;
    const entry = { ...this.entries[place], ...change };
    this.entries = this.entries.with(place, entry);
    this.#keep(entry);
  }

  #keep(entry) {
    const key = `outbox.${entry.message_id}`;
    // Where large attachments do not fit, the words at least survive a reload.
    remember(key, entry) || remember(key, { ...entry, attachments: [] });
    this.changed();
  }
}

/** Pages over plain HTTP from another machine have no randomUUID. */
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
