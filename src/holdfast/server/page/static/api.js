// Calls of /api/v1: an answer, or a Failure with the reason and whether a retry makes sense.
import { _ } from "./translation.js";

const ROOT = "/api/v1";

export class Failure extends Error {
  constructor(message, { status = 0, code = "" } = {}) {
    super(message);
    this.status = status;
    this.code = code;
  }

  /** The text for a user who wanted to open something. */
  get unopened() {
    return this.status === 404 ? _("Not found: it was deleted, or the address is incomplete.") : this.message;
  }

  /** The gateway is unreachable: nothing was accepted, and the request may be repeated. */
  get temporary() {
    return this.status === 0 || this.status >= 500 || this.status === 429;
  }

  get unauthenticated() {
    return this.status === 401;
  }
}

async function call(method, path, body) {
  const request = { method, headers: { Accept: "application/json" }, cache: "no-store" };
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(ROOT + path, request);
  } catch {
    throw new Failure(_("The gateway cannot be reached."));
  }
  if (!response.ok) throw await failureOf(response);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    throw new Failure(_("The gateway's answer was cut off."));
  }
}

async function failureOf(response) {
  const { status } = response;
  try {
    const { error } = await response.json();
    return new Failure(String(error.message), { status, code: String(error.code ?? "") });
  } catch {
    return new Failure(_("The gateway answered with status {status}.", { status }), { status });
  }
}

const at = (...parts) => "/" + parts.map(encodeURIComponent).join("/");
const query = (pairs) => {
  const given = Object.entries(pairs).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? "?" + new URLSearchParams(given) : "";
};

export const api = {
  status: async () => {
    const status = await call("GET", "/status");
    document.documentElement.dataset.currency = status.currency; // of all costs (board/number_format.js)
    return status;
  },
  whoami: () => call("GET", "/whoami"),
  chart: (span) => call("GET", "/chart" + query({ span })),
  platforms: () => call("GET", "/platforms"),
  account: (name, account, act) => call("POST", at("platforms", name, account, act)),
  commands: () => call("GET", "/commands"),
  jobs: (asked = {}) => call("GET", "/jobs" + query(asked)),
  job: (id) => call("GET", at("jobs", id)),
  runs: (id, limit) => call("GET", at("jobs", id, "runs") + query({ limit })),
  addJob: (job) => call("POST", "/jobs", job),
  changeJob: (id, changes) => call("PATCH", at("jobs", id), changes),
  runJob: (id) => call("POST", at("jobs", id, "run")),
  stopJob: (id) => call("POST", at("jobs", id, "stop")),
  removeJob: (id) => call("DELETE", at("jobs", id)),
  audit: (asked = {}) => call("GET", "/audit" + query(asked)),
  verifyAudit: () => call("GET", "/audit/verify"),
  log: (asked = {}) => call("GET", "/logs" + query(asked)),
  outbox: (asked = {}) => call("GET", "/outbox" + query(asked)),
  retry: (delivery) => call("POST", at("deliveries", delivery, "retry")),
  restarts: (asked = {}) => call("GET", "/restarts" + query(asked)),
  restart: (mode) => call("POST", "/restart", mode ? { mode } : {}),
  tokens: () => call("GET", "/tokens"),
  createToken: (token) => call("POST", "/tokens", token),
  revokeToken: (name) => call("DELETE", "/tokens" + query({ name })),
  config: () => call("GET", "/config"),
  setConfig: (change) => call("PATCH", "/config", change),
  configHistory: (asked = {}) => call("GET", "/config/history" + query(asked)),
  configVersion: (number, asked = {}) => call("GET", at("config", "history", number) + query(asked)),
  rollBack: (asked) => call("POST", "/config/rollback", asked),
  search: (q, limit = 20) => call("GET", "/search" + query({ q, limit })),
  sessions: (asked = {}) => call("GET", "/sessions" + query(asked)),
  open: (name) => call("POST", "/sessions", name ? { name } : {}),
  session: (id, limit, max_tool_output) => call("GET", at("sessions", id) + query({ limit, max_tool_output })),
  stats: (id, asked) => call("GET", at("sessions", id, "stats") + query(asked)),
  move: (id, where, body) => call("POST", at("sessions", id, where), body), // suspend, resume, reset, fork
  transcript: (id, asked) => call("GET", at("sessions", id, "transcript") + query(asked)),
  rename: (id, title) => call("PATCH", at("sessions", id), { title }),
  remove: (id) => call("DELETE", at("sessions", id)),
  sendMessage: (id, message) => call("POST", at("sessions", id, "messages"), message),
  message: (id) => call("GET", at("messages", id)),
  stop: (id) => call("POST", at("sessions", id, "stop")),
  turns: (asked = {}) => call("GET", "/turns" + query(asked)),
  turn: (id, asked) => call("GET", at("turns", id) + query(asked)),
  approvals: (asked = {}) => call("GET", "/approvals" + query(asked)),
  rules: () => call("GET", "/approval-rules"),
  dropRule: (id) => call("DELETE", at("approval-rules", id)),
  calls: () => call("GET", "/calls"),
  allProcesses: () => call("GET", "/processes"),
  answer: (approval, decision) => call("POST", at("approvals", approval), decision),
  processes: (id) => call("GET", at("sessions", id, "processes")),
  process: (id, process) => call("GET", at("sessions", id, "processes", process)),
  kill: (id, process) => call("DELETE", at("sessions", id, "processes", process)),
  memory: (asked = {}) => call("GET", "/memory" + query(asked)),
  saveNote: (note) => call("POST", "/memory", note),
  switchMemory: (owner, off) => call("PATCH", "/memory", { owner, off }),
  deleteNote: (owner, id) => call("DELETE", "/memory" + query({ owner, id })),
  pairing: () => call("GET", "/pairing"),
  approvePairing: (code) => call("POST", "/pairing", { code }),
  deny: (who) => call("DELETE", "/pairing/requests" + query({ who })),
  revokePairing: (who) => call("DELETE", "/pairing/users" + query({ who })),
  files: (id) => call("GET", at("sessions", id, "files")),
};

/** Logs in with a token instead of a link; the browser stays logged in. */
export async function logIn(token) {
  let response;
  try {
    response = await fetch("/login", { method: "POST", headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
  } catch {
    throw new Failure(_("The gateway cannot be reached, or this is not a token."));
  }
  if (response.status === 429) {
    throw new Failure(_("Too many attempts. Wait {n} seconds, then try again.", { n: response.headers.get("Retry-After") }), { status: 429 });
  }
  if (!response.ok) throw new Failure(_("This is not a token of this gateway, or it was revoked."), { status: response.status });
}

export const address = {
  events: () => ROOT + "/events",
  log: (asked) => ROOT + "/logs/events" + query(asked),
  audit: (asked) => ROOT + "/audit/export" + query(asked),
  session: (id, after) => ROOT + at("sessions", id, "events") + query({ after }),
  file: (id, path) => ROOT + at("sessions", id, "files") + query({ path }),
  export: (id) => ROOT + at("sessions", id, "export"),
};
