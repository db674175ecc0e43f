// The state of a turn, as a badge.
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";

export const STATES = {
  open: _("running"),
  answered: _("answered"),
  interrupted: _("interrupted"),
  superseded: _("stopped"),
  failed: _("failed"),
};
const TONES = { answered: "good", failed: "bad", superseded: "paused", interrupted: "paused", open: "running" };
export const LEFT = {
  parked: _("parked between two steps"),
  restart_timeout: _("interrupted by a restart"),
  shutdown_timeout: _("interrupted by a stop"),
};

export function StateBadge({ turn }) {
  const { state, waiting_for_approval, resumed } = turn;
  return html`<span class=${`badge ${waiting_for_approval ? "waiting" : TONES[state] ?? ""}`}>${stateText(turn)}</span>
    ${resumed > 0 && html` <small class="over">${_n("over {n} restart", "over {n} restarts", resumed)}</small>`}`;
}

function stateText({ state, exit_reason, waiting_for_approval }) {
  if (waiting_for_approval) return _("waiting");
  return exit_reason ? LEFT[exit_reason] ?? exit_reason : STATES[state] ?? state;
}
