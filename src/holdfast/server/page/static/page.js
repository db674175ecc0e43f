// The page's own state: which chat or view is open, how the connection is, and who is told what.
import { api } from "./api.js";
import { Chats } from "./chats.js";
import { Conversation } from "./conversation.js";
import { Observable } from "./observable.js";
import { Outbox } from "./outbox.js";
import { ChangeNotifier } from "./change_notifier.js";
import { decoded, placeIn, VIEWS } from "./views.js";

export class Page extends Observable {
  #states = new Map(); // stream → "connecting" | "open" | "waiting"
  #composers = new Set();
  #hearers = new Set(); // of what the stream says about sessions

  constructor() {
    super();
    this.status = null;
    this.role = null; // "owner", or "viewer", who changes nothing
    this.commands = [];
    this.loggedOut = false; // no cookie: nothing can be shown
    this.conversation = null;
    Object.assign(this, placeIn(location.hash)); // `view` and its `part`; no view: a chat is shown
    this.kept = new Map(); // by its name, what a view wants to find again when one comes back to it
    this.chatAddress = "#/new"; // where one comes back to from the dashboard
    this.changes = new ChangeNotifier();
    this.audits = new ChangeNotifier(); // for every call of a tool there is a row, of which nobody else wants to hear
    this.seek = null;
    this.newName = null; // of the chat that is about to be; null where one is open
    this.drawer = false;
    this.panel = null; // "files", "processes", "memory", "people" or null
    this.theme = document.documentElement.dataset.theme ?? "auto";
    this.announced = "";
    this.dialog = null;
    this.outbox = new Outbox({
      onSession: (name, session) => this.#begun(name, session),
      onAccepted: (id, said) => this.conversation?.id === id && this.conversation.accepted(said),
    });
    this.chats = new Chats({
      onState: (state) => this.#connection("chats", state),
      onGateway: (told) => this.#stirred(told),
      onAudit: () => this.audits.notify(),
      onSession: (name, data) => this.#sessionTold(name, data),
    });
    // At once: a quick hand writes before the gateway has said how it is.
    this.newName = this.#waitingName();
  }

  async start() {
    addEventListener("hashchange", () => this.#route());
    addEventListener("online", () => this.#back());
    addEventListener("pageshow", (event) => event.persisted && this.#back());
    // Six connections are all that a browser gives a site: pages that nobody sees hold none
    // but that of a turn they wait for.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#away() : this.#back()));
    await this.#look();
    if (this.loggedOut) return;
    this.chats.open();
    this.outbox.flush();
    this.#route();
  }

  get connected() {
    return ![...this.#states.values()].includes("waiting");
  }

  get viewer() {
    return this.role === "viewer";
  }

  get place() {
    return this.conversation?.id ?? "new";
  }

  goTo(id, seq) {
    location.hash = id ? `#/chat/${encodeURIComponent(id)}${seq ? `/${seq}` : ""}` : "#/new";
  }

  /** From the dashboard to where one was in the chats; nothing where one is there. */
  toChats() {
    if (!this.view) return;
    history.pushState(null, "", this.chatAddress);
    this.#route();
  }

  set(change) {
    Object.assign(this, change);
    this.changed();
  }

  send({ text, attachments, mode }) {
    const session = this.conversation?.id ?? null;
    this.outbox.add({ session, name: session ? null : this.newName, text, attachments, mode });
  }

  async stop() {
    if (this.viewer) return;
    try {
      await this.conversation?.stop();
    } catch (failure) {
      this.announce(failure.message);
    }
  }

  /** Resolves when it is decided: the gateway goes, or says why it does not. */
  async restart(mode) {
    await api.restart(mode);
  }

  /** Said to a screen reader once; never while it is still being written. */
  announce(text) {
    const plain = text.replace(/[`*_#>|]/g, "").trim();
    this.set({ announced: plain.length > 400 ? `${plain.slice(0, 400)}…` : plain });
  }

  /** Whoever writes messages is given words to begin with. */
  onCompose(listener) {
    this.#composers.add(listener);
    return () => this.#composers.delete(listener);
  }

  /** Told of every session that changes (`"session"`, with it) or is gone (`"deleted"`, with its id). */
  onSession(listener) {
    this.#hearers.add(listener);
    return () => this.#hearers.delete(listener);
  }

  compose(words) {
    for (const composer of this.#composers) composer(words);
  }

  setTheme(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("holdfast.theme", theme);
    } catch {
      // It holds until the page is left.
    }
    this.set({ theme });
  }

  async rename(session, title) {
    this.chats.put(await api.rename(session.id, title));
  }

  async remove(session) {
    await api.remove(session.id);
    this.chats.forget(session.id);
    this.outbox.drop(...this.outbox.of(session.id).map((entry) => entry.message_id));
    if (this.conversation?.id !== session.id) return;
    if (this.view) location.hash = "#/sessions";
    else this.goTo(null);
  }

  #route() {
    const [, kind, id, seq] = location.hash.split("/");
    this.seek = seq ? Number(seq) : null;
    this.drawer = false;
    Object.assign(this, placeIn(location.hash));
    if (this.view) this.#leaveChats();
    else this.chatAddress = location.hash || "#/new";
    const wanted = kind === "chat" && id ? decoded(id) : this.view === "sessions" ? this.part : null;
    if (wanted === null) return this.#show(null);
    if (this.conversation?.id !== wanted) this.#show(wanted);
    else this.changed();
  }

  #leaveChats() {
    this.panel = null;
    if (this.chats.query) this.chats.search("");
  }

  #show(id, heard = null) {
    const before = this.conversation;
    before?.close();
    this.#states.delete("conversation");
    this.conversation = id && this.#opened(id, heard);
    if (id) this.newName = null;
    // Who is in a new chat already stays in it: what was said there may be on its way.
    else if (before || !this.newName) this.newName = this.#waitingName();
    if (!id) document.title = this.view ? `${VIEWS[this.view].label} · Holdfast` : "Holdfast";
    this.changed();
  }

  #opened(id, heard) {
    const conversation = new Conversation(id, {
      outbox: this.outbox,
      onState: (state, failure) => this.#connection("conversation", state, failure),
      onSession: (session) => this.#told(session),
      onAnnounce: (text) => this.announce(text),
      onLeft: (session, answer) => this.#goAlong(session, answer),
      heard,
    });
    conversation.open();
    return conversation;
  }

  /** A new chat whose first words could not be sent yet is found again after a reload. */
  #waitingName() {
    const waiting = this.outbox.entries.find((entry) => !entry.session && entry.name);
    if (waiting) return waiting.name;
    const bytes = crypto.getRandomValues(new Uint8Array(8));
    return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  }

  #begun(name, session) {
    this.chats.put(session);
    if (this.newName !== name) return;
    this.chatAddress = `#/chat/${encodeURIComponent(session.id)}`;
    if (this.view) {
      this.newName = this.#waitingName(); // who looks at the dashboard stays there, and finds it
      return;
    }
    history.replaceState(null, "", this.chatAddress);
    this.#show(session.id);
  }

  /** A command has led from one chat to another: whoever gave it goes along, and so does its answer. */
  async #goAlong({ id, platform, chat }, answer) {
    if (platform !== "web" || this.viewer) return; // only of these the name opens the same place
    const session = await api.open(chat);
    this.chats.put(session);
    if (this.conversation?.id !== id || session.id === id) return;
    this.goAlong(session.id, answer);
  }

  /** Its chat goes on in that session: whoever looks at the one that it has left goes along. */
  goAlong(id, heard = null) {
    if (this.view) this.part = id;
    else this.chatAddress = `#/chat/${encodeURIComponent(id)}`;
    history.pushState(null, "", this.view ? `#/sessions/${encodeURIComponent(id)}` : this.chatAddress);
    this.seek = null;
    this.#show(id, heard);
  }

  #sessionTold(name, data) {
    this.changes.notify({ soon: data.state === "waiting" }); // for somebody who looks at the approvals
    for (const listener of this.#hearers) listener(name, data);
  }

  #told(session) {
    this.chats.put(session);
    const mark = session.state === "idle" ? "" : "● ";
    document.title = `${mark}${session.title || "New chat"} · Holdfast`;
    this.changed();
  }

  /** How far a stop has come, that one is to come, or which accounts are blocked. */
  #stirred({ state, phase, turns, pending_restart, blocked_accounts }) {
    this.changes.notify({ soon: true });
    if (!this.status) return;
    this.status = { ...this.status, state, phase, pending_restart, blocked_accounts, turns: { ...this.status.turns, running: turns } };
    this.changed();
  }

  #connection(stream, state, failure) {
    if (failure?.unauthenticated) this.#leave();
    // A new try is not a connection yet: what was lost stays lost until it is open.
    if (state === "connecting" && this.#states.get(stream) === "waiting") return;
    const before = this.connected;
    this.#states.set(stream, state);
    if (state === "waiting" && stream === "chats") this.#look();
    if (state === "open" && stream === "chats") {
      this.outbox.flush();
      this.#look();
      this.changes.notify({ soon: true });
      this.audits.notify({ soon: true });
    }
    if (before !== this.connected) this.announce(this.connected ? "Connected again" : "Connection lost");
    this.changed();
  }

  async #look() {
    try {
      if (!this.role) this.#enter(await api.whoami());
      this.status = await api.status();
      const blocked = this.status.problems.filter(({ code }) => code === "account_blocked");
      this.status.blocked_accounts = blocked.map(({ what }) => what);
      if (!this.commands.length) this.commands = await api.commands();
      this.changed();
    } catch (failure) {
      if (failure.unauthenticated) this.#leave();
    }
  }

  /** What would change something is hidden by the style from who may not; the gateway refuses it, too. */
  #enter({ role }) {
    this.role = role;
    document.documentElement.dataset.role = role;
  }

  #leave() {
    this.chats.close();
    this.conversation?.close();
    this.set({ loggedOut: true, conversation: null });
  }

  #away() {
    this.chats.close();
    if (!this.conversation?.running) this.conversation?.pause();
  }

  async #back() {
    if (this.loggedOut) {
      // The link may have been opened in another tab.
      await api.status().then(() => location.reload(), () => null);
      return;
    }
    this.chats.open();
    this.conversation?.resume();
  }
}

