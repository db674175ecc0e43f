// One open conversation: its committed records by seq, what is live, and the stream of both.
import { address, api } from "./api.js";
import { LiveStep } from "./live_step.js";
import { Observable } from "./observable.js";
import { Stream } from "./stream.js";

export const CHUNK = 64; // records that are drawn together
const PAGE = 2 * CHUNK; // records that are loaded at once: whole chunks
const MAX_TOOL_OUTPUT = 2000; // characters of a tool's output that are loaded before the step is unfolded
const TAKES_BACK = /^\/(?:undo|retry)\b/i; // commands that change what is here already
const LEADS_AWAY = /^\/(?:fork|resume|new|reset)\b/i; // commands after which one is in another chat
const EVENTS = ["record", "live", "text", "reasoning", "tool", "void", "ended", "session"];

/**
 * Changes of what is committed are told by the conversation itself, changes of the running step
 * by `live`: a streamed word draws the running step again and nothing else.
 */
export class Conversation extends Observable {
  #stream;
  #events = [];
  #frame = 0;
  #ended = new Set();
  #gapAt = 0;
  #opened = false;
  #closed = false;

  /** `heard`: what a command said that led here. */
  constructor(id, { outbox, onState, onSession, onAnnounce, onLeft, heard = null }) {
    super();
    this.id = id;
    this.session = null;
    this.records = [];
    this.base = 1;
    this.turns = new Map();
    this.answers = []; // what commands and failed messages said: {id, text, state, after}
    this.more = false;
    this.problem = null;
    this.loading = true;
    this.live = new LiveStep();
    this.outbox = outbox;
    this.onState = onState;
    this.onSession = onSession;
    this.onAnnounce = onAnnounce;
    this.onLeft = onLeft;
    this.heard = heard;
    this.#stream = new Stream({
      address: () => address.session(this.id, this.last),
      events: EVENTS,
      onEvent: (name, data) => this.#take(name, data),
      onState: (state) => this.#connection(state),
    });
  }

  get last() {
    return this.records.at(-1)?.seq ?? 0;
  }

  get running() {
    return this.live.running || busy(this.session);
  }

  async open() {
    try {
      const detail = await api.session(this.id, PAGE, MAX_TOOL_OUTPUT);
      if (this.#closed) return;
      this.records = detail.records;
      this.base = detail.records[0]?.seq ?? 1; // chunks are counted from here, both ways
      this.more = detail.more;
      this.live.replace(detail.live);
      if (this.heard) this.answers = [{ ...this.heard, after: this.last }];
      this.heard = null;
      this.#took(detail);
      this.loading = false;
      this.changed();
      this.live.changed();
      this.#stream.open();
      this.#reconcile();
    } catch (failure) {
      this.#failed(failure);
    }
  }

  close() {
    this.#closed = true;
    cancelAnimationFrame(this.#frame);
    this.#stream.close();
  }

  pause() {
    this.#stream.close();
  }

  resume() {
    if (!this.loading && !this.problem) this.#stream.open();
    this.#stream.hurry();
  }

  /** Older records, once; true if some came. */
  async older(limit = PAGE) {
    if (!this.more || this.olderAsked) return false;
    this.olderAsked = true;
    try {
      const before = this.records[0]?.seq;
      const { records, more } = await api.transcript(this.id, { before, limit, max_tool_output: MAX_TOOL_OUTPUT });
      this.records = [...records.filter((record) => record.seq < before), ...this.records];
      this.more = more && records.length > 0;
      return records.length > 0;
    } catch {
      return false; // the next scroll asks again
    } finally {
      this.olderAsked = false;
      this.changed();
    }
  }

  /** Until the record of that seq is loaded. */
  async reach(seq) {
    while (this.more && this.records[0]?.seq > seq) {
      if (!(await this.older(8 * CHUNK))) return;
    }
  }

  /** All that a tool has printed, of a record that came with less. */
  async fullOutput({ seq }) {
    const { records } = await api.transcript(this.id, { after: seq - 1, limit: 1 });
    return records[0]?.message.text ?? "";
  }

  async stop() {
    await api.stop(this.id);
  }

  /** The gateway accepted a message; if its end was told before its acceptance, it is over. */
  accepted({ id }) {
    if (this.#ended.has(id)) this.#settle({ id });
    // A command is over so soon that its end may have been told before anybody listened.
    else if (this.outbox.of(this.id).some((entry) => entry.id === id && isCommand(entry))) this.#reconcile();
  }

  #failed(failure) {
    if (this.#closed) return;
    this.loading = false;
    this.problem = failure;
    this.changed();
    if (failure.temporary) setTimeout(() => this.#retry(), 1500);
    this.onState(failure.temporary ? "waiting" : "open", failure);
  }

  #retry() {
    if (this.#closed) return;
    this.problem = null;
    this.open();
  }

  #connection(state) {
    this.onState(state);
    if (state === "waiting") this.#lookWhetherGone();
    if (state !== "open") return;
    if (this.#opened) this.#refresh();
    else this.#reconcile(); // what ended before anybody listened
    this.#opened = true;
  }

  /** A stream cannot say why it does not open; a chat that was deleted never will. */
  async #lookWhetherGone() {
    try {
      await api.session(this.id, 1);
    } catch (failure) {
      if (failure.status !== 404 || this.#closed) return;
      this.#stream.close();
      this.#failed(failure);
    }
  }

  /** How the last turn ended is said by no event. */
  async #lookHowItEnded() {
    const known = this.turns.get(this.records.at(-1)?.turn_id);
    if (!this.records.length || (known && known.state !== "open")) return;
    try {
      this.#took(await api.session(this.id, 1));
      if (!this.#closed) this.changed();
    } catch {
      // It is told when the chat is opened again.
    }
  }

  /** After a gap in the connection: what is no record, and so was not repeated. */
  async #refresh() {
    try {
      this.#took(await api.session(this.id, 1));
      this.changed();
      await this.outbox.flush();
      await this.#reconcile();
    } catch (failure) {
      if (!failure.temporary) this.#failed(failure);
    }
  }

  #took({ session, turns }) {
    this.session = session;
    for (const turn of turns) this.turns.set(turn.id, turn);
    this.onSession(session);
  }

  // Events are gathered and shown once a frame: a fast model costs no more than a slow one.
  #take(name, data) {
    this.#events.push([name, data]);
    if (this.#frame) return;
    const show = () => this.#show();
    this.#frame = document.hidden ? setTimeout(show, 100) : requestAnimationFrame(show);
  }

  #show() {
    this.#frame = 0;
    const events = this.#events;
    this.#events = [];
    let committed = false;
    for (const [name, data] of events) {
      if (this.#closed) return;
      committed = this.#apply(name, data) || committed;
    }
    if (committed) this.changed();
    this.live.changed();
  }

  /** True where it changed more than the running step. */
  #apply(name, data) {
    switch (name) {
      case "record":
        return this.#append(data);
      case "session":
        this.session = data;
        this.onSession(data);
        if (!busy(data)) this.#lookHowItEnded();
        return true;
      case "ended":
        this.#settle(data);
        return true;
      case "live":
        return this.live.replace(data);
      default:
        this.live.add(name, data);
        return false;
    }
  }

  #append(record) {
    if (record.seq <= this.last) return false; // it was here before the connection was cut
    if (this.records.length && record.seq > this.last + 1 && this.#gapAt !== record.seq) {
      this.#gapAt = record.seq; // once: a hole that is really there must not be asked for twice
      this.#stream.again();
      return false;
    }
    if (this.#gapAt && record.seq > this.#gapAt) this.#gapAt = 0;
    this.records = [...this.records, record];
    const { message } = record;
    if (message.type === "assistant") this.live.empty();
    if (message.type === "assistant" && message.text) this.onAnnounce(message.text);
    if (message.type === "tool") this.live.finish(message.call_id);
    if (message.type === "user") this.#recorded(record);
    return true;
  }

  /** A message of a person is in the transcript: it is no longer on its way. */
  #recorded({ message, message_id }) {
    const waiting = this.outbox.of(this.id);
    const sent =
      waiting.find((entry) => message_id && entry.message_id === message_id) ??
      waiting.find((entry) => isText(entry, message.text));
    if (sent) this.outbox.drop(sent.message_id);
    else if (waiting.length) this.#reconcile();
  }

  /** Of what was accepted and has ended unheard, what commands said is shown: no record has it. */
  async #reconcile() {
    for (const { entry, message } of await this.outbox.reconcile(this.id)) {
      if (this.#closed) return;
      if (isCommand(entry)) {
        this.#answer(entry, message, this.last);
        await this.#effect(entry.text).catch(() => null); // it is seen when the chat is opened again
      }
    }
    if (!this.#closed) this.changed();
  }

  /** A message has its end; what there is to say of it besides its records is asked for. */
  async #settle({ id }) {
    this.#ended.add(id);
    const after = this.last; // and not what is written while it is asked for
    const entry = this.outbox.of(this.id).find((each) => each.id === id);
    if (entry) this.outbox.drop(entry.message_id);
    try {
      if (entry) {
        this.#answer(entry, await api.message(id), after);
        await this.#effect(entry.text);
      }
    } catch {
      // What a command said is in no transcript; asking again may say it.
    }
    if (!this.#closed) this.changed();
  }

  /** Some commands do more than answer, and no event tells of it. */
  async #effect(asked) {
    if (TAKES_BACK.test(asked)) await this.#reread();
    if (!LEADS_AWAY.test(asked)) return;
    this.#took(await api.session(this.id, 1));
    if (!this.session.current) this.onLeft(this.session, this.answers.at(-1));
  }

  /** What is loaded, as it is now; in steps as long as the gateway allows. */
  async #reread() {
    const now = new Map();
    for (let before = this.last + 1; before > this.records[0]?.seq; ) {
      const { records } = await api.transcript(this.id, { before, limit: 8 * CHUNK, max_tool_output: MAX_TOOL_OUTPUT });
      if (!records.length) break;
      for (const record of records) now.set(record.seq, record);
      before = records[0].seq;
    }
    this.records = this.records.map((record) => (now.get(record.seq)?.undone ? now.get(record.seq) : record));
  }

  /** One that was on its way to the end never became a record: a command, or it was not taken. */
  #answer({ text: asked }, { id, text, reason, state }, after) {
    const said = text || reason;
    if (!said && state !== "superseded") return;
    if (this.records.some(({ message }) => message.type === "user" && message.text === words(asked))) return;
    this.answers = [...this.answers, { id, text: said, asked, state, after }];
    this.onAnnounce(said);
  }
}

/** The gateway adds a line that names the attachments. */
function isText({ text, attachments }, said) {
  return attachments.length ? said.startsWith(words(text)) : said.trim() === words(text).trim();
}

/** What of a text reaches the agent: two commands say only when. */
function words(text) {
  return text.replace(/^\/(?:queue|q|steer)\s+/i, "");
}

/** Answered by the gateway itself, and in no transcript. */
function isCommand({ text }) {
  return text.startsWith("/") && words(text) === text;
}

export function busy(session) {
  return session !== null && session.state !== "idle";
}
