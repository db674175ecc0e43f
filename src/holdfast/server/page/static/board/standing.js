// How a session stands, in a word, and whose it is.
import { html } from "../vendor/preact-htm.module.js";

const STATES = {
  starting: ["begins", "busy"],
  running: ["running", "busy"],
  waiting: ["waits for a person", "asks"],
  parked: ["left at a step", "busy"],
  stopping: ["stopping", "busy"],
};

/** [what is said, its tone]. */
export function standing({ state, suspended, ended_at, resume_pending }) {
  if (STATES[state]) return STATES[state];
  if (suspended) return ["suspended", "aside"];
  if (ended_at !== null) return ["ended", "over"];
  return resume_pending ? ["was cut", "asks"] : ["idle", "over"];
}

export function Standing({ session }) {
  const [said, tone] = standing(session);
  const queued = session.gist?.queued ?? 0;
  return html`<span class=${`standing ${tone}`}>${said}</span>${queued > 0 && html` <span class="queued">+${queued} queued</span>`}`;
}

/** An owner is `platform:account:person`; where the place says the first two, the last is enough. */
export function person(owner, platform) {
  if (!owner) return "";
  const [first, , ...rest] = owner.split(":");
  return first === platform && rest.length ? rest.join(":") : owner;
}
