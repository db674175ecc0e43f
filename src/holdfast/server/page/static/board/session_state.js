// The state of a session as a badge, and who owns it.
import { _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { stateName } from "../view/state_name.js";

const TONES = { starting: "busy", running: "busy", waiting: "attention", parked: "busy" };

/** [label, tone]. */
export function stateOf({ state, suspended, ended_at, resume_pending }) {
  if (TONES[state]) return [stateName(state), TONES[state]];
  if (suspended) return [stateName("suspended"), "suspended"];
  if (ended_at !== null) return [stateName("ended"), "over"];
  return resume_pending ? [stateName("interrupted"), "attention"] : [stateName("idle"), "over"];
}

export function SessionState({ session }) {
  const [label, tone] = stateOf(session);
  const queued = session.summary?.queued ?? 0;
  return html`<span class=${`session-state ${tone}`}>${label}</span>${queued > 0 && html` <span class="queued">+${_n("{n} queued", "{n} queued", queued)}</span>`}`;
}

/** The name of a chat; "" for an id that the page or its API made up (`chat_label` of the gateway). */
export const chatName = ({ platform, chat }) => (platform === "web" && /^(?:page-[0-9a-f]{16}|chat_[0-9a-f]+)$/.test(chat) ? "" : chat);

/** An owner is `platform:account:person`; beside its platform, the last part is enough. */
export function person(owner, platform) {
  if (!owner) return "";
  const [first, , ...rest] = owner.split(":");
  return first === platform && rest.length ? rest.join(":") : owner;
}
