// The state of a turn, as a badge.
import { html } from "../vendor/preact-htm.module.js";
import { many } from "./number_format.js";

export const STATES = {
  open: "running",
  answered: "answered",
  interrupted: "interrupted",
  superseded: "stopped",
  failed: "failed",
};
const TONES = { answered: "good", failed: "bad", superseded: "paused", interrupted: "paused", open: "running" };
const LEFT = { parked: "left between two steps", restart_timeout: "interrupted by a restart", shutdown_timeout: "interrupted by a stop" };

export function StateBadge({ turn }) {
  const { state, waiting_for_approval, resumed } = turn;
  return html`<span class=${`badge ${waiting_for_approval ? "" : TONES[state] ?? ""}`}>${stateText(turn)}</span>
    ${resumed > 0 && html` <small class="over">over ${many(resumed, "restart")}</small>`}`;
}

function stateText({ state, exit_reason, waiting_for_approval }) {
  if (waiting_for_approval) return "waiting";
  return exit_reason ? LEFT[exit_reason] ?? exit_reason : STATES[state] ?? state;
}
