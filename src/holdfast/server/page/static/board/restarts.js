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

/** The phases of a start and a stop, by the name that the gateway reports. */
const PHASES = {
  "trying the sandbox": _("trying the sandbox"),
  "opening the store": _("opening the store"),
  "looking back": _("looking back"),
  "choosing a model": _("choosing a model"),
  "opening the listeners": _("opening the listeners"),
  "telling who waits": _("telling who waits"),
  "close intake": _("close intake"),
  "notify": _("notify"),
  "mark": _("mark"),
  "interrupt": _("interrupt"),
  "kill tools": _("kill tools"),
  "finalise agents": _("finalise agents"),
  "empty the cache": _("empty the cache"),
  "flush outbox": _("flush outbox"),
  "disconnect platforms": _("disconnect platforms"),
  "cancel tasks": _("cancel tasks"),
  "kill tools again": _("kill tools again"),
  "close auxiliary clients": _("close auxiliary clients"),
  "drain": _("drain"),
  "record intent": _("record intent"),
  "leave the start": _("leave the start"),
  "close the listeners": _("close the listeners"),
  "close the models": _("close the models"),
  "complete the record": _("complete the record"),
  "close the store": _("close the store"),
  "record state": _("record state"),
  "release the lock": _("release the lock"),
  "ask for a successor": _("ask for a successor"),
  "stop accepting": _("stop accepting"),
};
export function phaseText(phase) {
  const draining = /^draining: (\d+) turns?$/.exec(phase);
  if (draining) return _n("draining: {n} turn", "draining: {n} turns", Number(draining[1]));
  return PHASES[phase] ?? phase;
}

function Going({ live }) {
  const turns = live.turns.running ?? 0;
  return html`<div role="status">
    <p><strong>${live.state === "restarting" ? _("Restarting") : live.state === "stopping" ? _("Stopping") : _("Starting")}</strong>${live.phase && `: ${phaseText(live.phase)}`}</p>
    ${turns > 0 && html`<p>${_n("{n} turn still has to finish its step.", "{n} turns still have to finish their step.", turns)}</p>`}
    <progress aria-label=${_("In progress")}></progress>
  </div>`;
}
