// The outbox: deliveries that have not arrived, the reason, and a button to send one again.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { addressOf, setQuery, queryParams } from "./url_query.js";
import { count } from "./number_format.js";
import { Choice } from "./filters.js";
import { deliveryColumns } from "./delivery_row.js";
import { Pages, Rows } from "./rows.js";

const EVERY = 10; // seconds; no event announces the result of an attempt
const SELDOM = 120; // accounts come and go with the configuration
const PAGE = 50;

const UNSENT = ["streaming", "pending", "sending", "unknown", "failed"];
const STATES = {
  unsent: { label: _("Not arrived"), of: UNSENT },
  pending: { label: _("Waiting"), of: ["pending"] },
  unknown: { label: _("Unknown"), of: ["unknown"] },
  failed: { label: _("Failed"), of: ["failed"] },
  sent: { label: _("Sent"), of: ["sent"] },
  all: { label: _("All"), of: [...UNSENT, "sent"] },
};
const NOTHING = {
  unsent: _("Nothing is pending: every message to a chat has arrived."),
  pending: _("No message waits to be sent."),
  unknown: _("The outcome of every delivery is known."),
  failed: _("No delivery has failed."),
};

export function View({ page }) {
  const { state = "unsent", platform = "", before } = queryParams();
  const query = { state: state === "all" ? "" : state, platform, before, limit: PAGE };
  const { value, problem, refresh } = useFetched(page.changes, () => api.outbox(query), EVERY, [state, platform, before]);
  const to = (change) => addressOf("outbox", { state, platform, ...change });
  return html`
    <div class="filters">
      <${States} counts=${value?.counts} state=${state} to=${to} />
      <${Platforms} page=${page} platform=${platform} onChoose=${(chosen) => setQuery(page, "outbox", { state, platform: chosen })} />
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">${_("Loading…")}</p>`}
    ${value && html`<section class="card flush" aria-label=${_("Deliveries")}>
      <${List} page=${page} value=${value} state=${state} refresh=${refresh}
        newest=${before && to({})} older=${value.more && to({ before: value.deliveries.at(-1).seq })} />
    </section>`}`;
}

function States({ counts, state, to }) {
  return html`<nav class="tabs links" aria-label=${_("Deliveries by state")}>
    ${Object.entries(STATES).map(([name, { label, of }]) => html`<a key=${name} href=${to({ state: name })} aria-current=${name === state ? "page" : undefined}>
      ${label} <span class="item-count">${counts ? count(of.reduce((sum, each) => sum + (counts[each] ?? 0), 0)) : ""}</span>
    </a>`)}
  </nav>`;
}

function Platforms({ page, platform, onChoose }) {
  const { value } = useFetched(page.changes, api.platforms, SELDOM);
  const names = [...new Set([platform, ...(value?.accounts ?? []).map(({ name }) => name)])].filter(Boolean).sort();
  const choices = Object.fromEntries([["", _("All")], ...names.map((name) => [name, name])]);
  return html`<${Choice} label=${_("Platform")} value=${platform} choices=${choices} onChoose=${onChoose} />`;
}

function List({ page, value: { deliveries }, state, refresh, newest, older }) {
  if (!deliveries.length) {
    return html`<div class="empty-hint">
      <p><strong>${newest ? _("There is nothing older.") : NOTHING[state] ?? _("Nothing was sent yet.")}</strong></p>
      <p>${_("A reply is listed here from the moment its turn ends until its platform has confirmed it. A reply that a platform refuses for good stays here as failed.")}</p>
      <${Pages} newest=${newest} />
    </div>`;
  }
  return html`
    <${Rows} label=${_("Deliveries")} columns=${deliveryColumns(page, refresh)} rows=${deliveries} keyOf=${({ id }) => id} />
    <${Pages} newest=${newest} older=${older} />`;
}
