// Restarts: the progress of the current one, a button to request one, and the history.
import { api } from "../api.js";
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { iso, moment } from "../view/times.js";
import { History } from "./restart_history.js";

const EVERY = 10; // seconds between requests when no event arrives

export function View({ page }) {
  const { value: status, problem } = useFetched(page.changes, api.status, EVERY);
  return html`
    ${problem && page.connected && html`<p class="problem" role="alert">${problem}</p>`}
    <section class="card" aria-labelledby="now">
      <header class="between">
        <h2 id="now">${_("Now")}</h2>
        ${gatewayState(page) === "running" && html`<button type="button" class="quiet outlined" data-changes
          onClick=${() => page.set({ dialog: { kind: "restart" } })}>${_("Restart the gateway…")}</button>`}
      </header>
      <${Now} page=${page} status=${status} />
    </section>
    <section class="card" aria-labelledby="before">
      <h2 id="before">${_("History")}</h2>
      <${History} page=${page} />
    </section>`;
}

const gatewayState = ({ connected, status }) => (connected ? status?.state : "away");

/** The stream announces each phase; everything else comes from the status. */
function Now({ page, status }) {
  const { status: live, connected } = page;
  if (!connected) return html`<p role="status">${_("The gateway cannot be reached. The page reconnects automatically.")}</p>`;
  if (!live) return null;
  if (live.state !== "running") return html`<${Going} live=${live} />`;
  return html`
    <p>${status ? _("Running since {time}, version {version}.", { time: html`<time datetime=${iso(status.started_at)}>${moment(status.started_at)}</time>`, version: status.version }) : _("Running.")}</p>
    ${live.pending_restart && html`<p role="status">${_n("A restart waits until no turn runs: {n} turn is running.", "A restart waits until no turn runs: {n} turns are running.", live.turns.running ?? 0)}</p>`}`;
}

function Going({ live }) {
  const turns = live.turns.running ?? 0;
  return html`<div role="status">
    <p><strong>${live.state === "restarting" ? _("Restarting") : live.state === "stopping" ? _("Stopping") : _("Starting")}</strong>${live.phase && `: ${live.phase}`}</p>
    ${turns > 0 && html`<p>${_n("{n} turn still has to finish its step.", "{n} turns still have to finish their step.", turns)}</p>`}
    <progress aria-label=${_("In progress")}></progress>
  </div>`;
}
