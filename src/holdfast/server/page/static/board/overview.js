// The overview: the status of the gateway, its message counts, its problems, and its charts.
import { api } from "../api.js";
import { Observable } from "../observable.js";
import { _, _n } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { lasted, size } from "../view/times.js";
import { addressOf } from "./url_query.js";
import { Chart } from "./chart.js";
import { count } from "./number_format.js";
import { KINDS } from "./chart_kinds.js";
import { MessageCounts } from "./message_counts.js";
import { Problems } from "./problems.js";
import { phaseText } from "./restarts.js";

const EVERY = 10; // seconds between requests when no event arrives
const SLOWLY = 60; // a bucket of a quarter of an hour needs no update every ten seconds
// Deliveries that may need attention.
const UNARRIVED = {
  failed: (n) => _n("{n} failed", "{n} failed", n),
  unknown: (n) => _n("{n} unknown", "{n} unknown", n),
};
const STATES = { starting: _("starting"), running: _("running"), restarting: _("restarting"), stopping: _("stopping") };
const NO_EVENTS = new Observable();

export function View({ page }) {
  const { value: status, problem } = useFetched(page.changes, api.status, EVERY);
  if (!status) return html`<p class="quiet-text" role=${problem ? "alert" : undefined}>${problem || _("Loading…")}</p>`;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem} ${_("The data shown may be out of date.")}</p>`}
    <${Head} page=${page} status=${status} />
    <section class="card" aria-labelledby="wrong"><h2 id="wrong">${_("Problems")}</h2><${Problems} problems=${status.problems} /></section>
    <section class="card" aria-labelledby="ledger"><h2 id="ledger">${_("Messages")}</h2><${MessageCounts} status=${status} /></section>
    <${Charts} page=${page} />`;
}

function Head({ page, status }) {
  const { turns, machine } = status;
  const { value: outbox } = useFetched(page.changes, () => api.outbox({ state: "failed", limit: 1 }), SLOWLY);
  const facts = [
    [_("State"), status.phase ? `${STATES[status.state] ?? status.state}: ${phaseText(status.phase)}` : STATES[status.state] ?? status.state],
    [_("Uptime"), lasted(status.uptime)],
    [_("Version"), status.version],
    [_("Turns"), html`${to("sessions", { state: "running" }, _n("{n} running", "{n} running", turns.running ?? 0))}${turns.waiting
      ? html`, ${to("sessions", { state: "waiting" }, _n("{n} waits for a person", "{n} wait for a person", turns.waiting))}` : ""}`],
    [_("Queue"), to("sessions", { state: "queued" }, status.queued ? _n("{n} waits", "{n} wait", status.queued) : _("empty"))],
    [_("Deliveries"), html`${to("outbox", {}, status.outbox ? _n("{n} pending", "{n} pending", status.outbox) : _("none pending"))}${Object.keys(UNARRIVED).map((state) => outbox?.counts[state]
      ? html`, ${to("outbox", { state }, UNARRIVED[state](outbox.counts[state]))}` : "")}`],
    [_("Cached agents"), _("{n} of {limit}", { n: count(status.agents.cached), limit: count(status.agents.max_agents) })],
    [_("Memory use"), machine.memory === null ? _("unknown") : size(machine.memory)],
  ];
  return html`<dl class="stat-grid">
    ${facts.map(([name, figure], at) => html`<div key=${name} class=${at === 0 ? status.state : ""}><dt>${name}</dt><dd>${figure}</dd></div>`)}
  </dl>`;
}

const to = (view, query, label) => html`<a href=${addressOf(view, query)}>${label}</a>`;

const SPANS = { hour: _("Last hour"), day: _("Last day") };

function Charts({ page }) {
  const [span, setSpan] = useState("hour");
  const hour = span === "hour";
  const { value, problem } = useFetched(hour ? page.changes : NO_EVENTS, () => api.chart(span), hour ? EVERY : SLOWLY, [span]);
  const chart = value?.span === span ? value : null;
  return html`<section aria-labelledby="charts">
    <header class="between">
      <h2 id="charts">${_("Over time")}</h2>
      <div class="tabs" role="group" aria-label=${_("Time span")}>
        ${Object.entries(SPANS).map(([name, label]) => html`<button key=${name} type="button" aria-pressed=${String(name === span)}
          onClick=${() => setSpan(name)}>${label}</button>`)}
      </div>
    </header>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${chart && html`<div class="charts">${KINDS.map((kind) => html`<${Chart} key=${kind.title} kind=${kind} chart=${chart} />`)}</div>`}
  </section>`;
}
