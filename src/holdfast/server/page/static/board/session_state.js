// The state of a session in a word, and who owns it.
import { html } from "../vendor/preact-htm.module.js";

const STATES = {
  starting: ["begins", "busy"],
  running: ["running", "busy"],
  waiting: ["waits for a person", "asks"],
  parked: ["left at a step", "busy"],
  stopping: ["stopping", "busy"],
};

/** [what is said, its tone]. */
export function stateOf({ state, suspended, ended_at, resume_pending }) {
  if (STATES[state]) return STATES[state];
  if (suspended) return ["suspended", "suspended"];
  if (ended_at !== null) return ["ended", "over"];
  return resume_pending ? ["interrupted", "asks"] : ["idle", "over"];
}

export function SessionState({ session }) {
  const [said, tone] = stateOf(session);
  const queued = session.summary?.queued ?? 0;
  return html`<span class=${`session-state ${tone}`}>${said}</span>${queued > 0 && html` <span class="queued">+${queued} queued</span>`}`;
}

/** An owner is `platform:account:person`; where the place says the first two, the last is enough. */
export function person(owner, platform) {
  if (!owner) return "";
  const [first, , ...rest] = owner.split(":");
  return first === platform && rest.length ? rest.join(":") : owner;
}
