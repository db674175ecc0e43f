// The overview: the status of the gateway, its message counts, its problems, and its charts.
import { api } from "../api.js";
import { Observable } from "../observable.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { lasted, size } from "../view/times.js";
import { addressOf } from "./url_query.js";
import { Chart } from "./chart.js";
import { count } from "./number_format.js";
import { KINDS } from "./chart_kinds.js";
import { MessageCounts } from "./message_counts.js";
import { Problems } from "./problems.js";

const EVERY = 10; // seconds between requests when no event arrives
const SLOWLY = 60; // a bucket of a quarter of an hour needs no update every ten seconds
const UNARRIVED = ["failed", "unknown"]; // deliveries that may need attention
const NOBODY = new Observable();

export function View({ page }) {
  const { value: status, problem } = useFetched(page.changes, api.status, EVERY);
  if (!status) return html`<p class="quiet-text" role=${problem ? "alert" : undefined}>${problem || "Loading…"}</p>`;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem} What is shown is as old as that.</p>`}
    <${Head} page=${page} status=${status} />
    <section class="card" aria-labelledby="wrong"><h2 id="wrong">Problems</h2><${Problems} problems=${status.problems} /></section>
    <section class="card" aria-labelledby="ledger"><h2 id="ledger">Messages</h2><${MessageCounts} status=${status} /></section>
    <${Charts} page=${page} />`;
}

function Head({ page, status }) {
  const { turns, machine } = status;
  const { value: outbox } = useFetched(page.changes, () => api.outbox({ state: "failed", limit: 1 }), SLOWLY);
  const facts = [
    ["State", status.phase ? `${status.state}: ${status.phase}` : status.state],
    ["Up for", lasted(status.uptime)],
    ["Version", status.version],
    ["Turns", html`${to("sessions", { state: "running" }, `${count(turns.running ?? 0)} running`)}${turns.waiting
      ? html`, ${to("sessions", { state: "waiting" }, `${count(turns.waiting)} wait for a person`)}` : ""}`],
    ["Queue", to("sessions", { state: "queued" }, status.queued ? `${count(status.queued)} wait` : "empty")],
    ["Deliveries", html`${to("outbox", {}, status.outbox ? `${count(status.outbox)} pending` : "none pending")}${UNARRIVED.map((state) => outbox?.counts[state]
      ? html`, ${to("outbox", { state }, `${count(outbox.counts[state])}\u00a0${state}`)}` : "")}`],
    ["Agents kept", `${count(status.agents.cached)} of ${count(status.agents.max_agents)}`],
    ["Memory", machine.memory === null ? "unknown" : size(machine.memory)],
  ];
  return html`<dl class="stat-grid">
    ${facts.map(([name, figure]) => html`<div key=${name} class=${name === "State" ? status.state : ""}><dt>${name}</dt><dd>${figure}</dd></div>`)}
  </dl>`;
}

const to = (view, query, label) => html`<a href=${addressOf(view, query)}>${label}</a>`;

const SPANS = { hour: "Last hour", day: "Last day" };

function Charts({ page }) {
  const [span, setSpan] = useState("hour");
  const hour = span === "hour";
  const { value, problem } = useFetched(hour ? page.changes : NOBODY, () => api.chart(span), hour ? EVERY : SLOWLY, [span]);
  const chart = value?.span === span ? value : null;
  return html`<section aria-labelledby="charts">
    <header class="between">
      <h2 id="charts">Over time</h2>
      <div class="tabs" role="group" aria-label="How far back">
        ${Object.entries(SPANS).map(([name, label]) => html`<button key=${name} type="button" aria-pressed=${String(name === span)}
          onClick=${() => setSpan(name)}>${label}</button>`)}
      </div>
    </header>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${chart && html`<div class="charts">${KINDS.map((kind) => html`<${Chart} key=${kind.title} kind=${kind} chart=${chart} />`)}</div>`}
  </section>`;
}
