// Restarts: the progress of the current one, a button to request one, and the history.
import { api } from "../api.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { iso, moment } from "../view/times.js";
import { many } from "./number_format.js";
import { History } from "./restart_history.js";

const EVERY = 10; // seconds between requests when no event arrives

export function View({ page }) {
  const { value: status, problem } = useFetched(page.changes, api.status, EVERY);
  return html`
    ${problem && page.connected && html`<p class="problem" role="alert">${problem}</p>`}
    <section class="card" aria-labelledby="now">
      <header class="between">
        <h2 id="now">Now</h2>
        ${gatewayState(page) === "running" && html`<button type="button" class="quiet outlined" data-changes
          onClick=${() => page.set({ dialog: { kind: "restart" } })}>Restart the gateway…</button>`}
      </header>
      <${Now} page=${page} status=${status} />
    </section>
    <section class="card" aria-labelledby="before">
      <h2 id="before">Before</h2>
      <${History} page=${page} />
    </section>`;
}

const gatewayState = ({ connected, status }) => (connected ? status?.state : "away");

/** The stream announces each phase; everything else comes from the status. */
function Now({ page, status }) {
  const { status: live, connected } = page;
  if (!connected) return html`<p role="status">The gateway is away. This page comes back with it.</p>`;
  if (!live) return null;
  if (live.state !== "running") return html`<${Going} live=${live} />`;
  return html`
    <p>Running${status && html` since <time datetime=${iso(status.started_at)}>${moment(status.started_at)}</time>, version ${status.version}`}.</p>
    ${live.pending_restart && html`<p role="status">A restart waits until nothing runs: ${many(live.turns.running ?? 0, "turn runs", "turns run")}.</p>`}`;
}

function Going({ live }) {
  const turns = live.turns.running ?? 0;
  return html`<div role="status">
    <p><strong>${live.state === "restarting" ? "Restarting" : live.state === "stopping" ? "Stopping" : "Starting"}</strong>${live.phase && `: ${live.phase}`}</p>
    ${turns > 0 && html`<p>${many(turns, "turn")} to come to the end of ${turns === 1 ? "its" : "their"} step.</p>`}
    <progress aria-label="Under way"></progress>
  </div>`;
}
