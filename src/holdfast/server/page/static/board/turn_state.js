// How a turn stands, as a badge.
import { html } from "../vendor/preact-htm.module.js";
import { many } from "./figures.js";

export const STATES = {
  open: "running",
  answered: "answered",
  interrupted: "interrupted",
  superseded: "stopped",
  failed: "failed",
};
const TONES = { answered: "good", failed: "parked", superseded: "paused", interrupted: "paused", open: "running" };
const LEFT = { parked: "left between two steps", restart_timeout: "cut by a restart", shutdown_timeout: "cut by a stop" };

export function StateBadge({ turn }) {
  const { state, waits, resumed } = turn;
  return html`<span class=${`badge ${waits ? "" : TONES[state] ?? ""}`}>${said(turn)}</span>
    ${resumed > 0 && html` <small class="over">over ${many(resumed, "restart")}</small>`}`;
}

function said({ state, left_as, waits }) {
  if (waits) return "waiting";
  return left_as ? LEFT[left_as] ?? left_as : STATES[state] ?? state;
}
