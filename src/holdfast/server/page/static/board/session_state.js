// The state of a session in a word, and who owns it.
import { html } from "../vendor/preact-htm.module.js";

const STATES = {
  starting: ["begins", "busy"],
  running: ["running", "busy"],
  waiting: ["waits for a person", "attention"],
  parked: ["left at a step", "busy"],
};

/** [label, tone]. */
export function stateOf({ state, suspended, ended_at, resume_pending }) {
  if (STATES[state]) return STATES[state];
  if (suspended) return ["suspended", "suspended"];
  if (ended_at !== null) return ["ended", "over"];
  return resume_pending ? ["interrupted", "attention"] : ["idle", "over"];
}

export function SessionState({ session }) {
  const [label, tone] = stateOf(session);
  const queued = session.summary?.queued ?? 0;
  return html`<span class=${`session-state ${tone}`}>${label}</span>${queued > 0 && html` <span class="queued">+${queued} queued</span>`}`;
}

/** An owner is `platform:account:person`; beside its platform, the last part is enough. */
export function person(owner, platform) {
  if (!owner) return "";
  const [first, , ...rest] = owner.split(":");
  return first === platform && rest.length ? rest.join(":") : owner;
}
