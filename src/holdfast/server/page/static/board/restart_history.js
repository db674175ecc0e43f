// Past stops of the gateway: the reason, who requested it, its turns, and its duration.
import { api } from "../api.js";
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { lasted } from "../view/times.js";
import { addressOf, queryParams } from "./url_query.js";
import { seconds } from "./number_format.js";
import { Moment } from "./moment.js";
import { Pages, Rows } from "./rows.js";

const EVERY = 60; // seconds; the stream announces each one
const PAGE = 20;

const KINDS = { stop: _("Stopped"), signal: _("Stopped by a signal"), restart: _("Restarted"), replace: _("Replaced"), crash: _("Crashed") };
const ASKED = {
  chat: () => _("requested in a chat"),
  cli: () => _("requested on the command line"),
  page: () => _("requested on this page"),
  signal: () => _("by a signal"),
  successor: () => _("by its successor"),
  nobody: () => "",
};
const COLUMNS = [
  { name: "when", label: _("When"), of: ({ order }) => html`<${Moment} at=${order.at} />` },
  { name: "what", label: _("What"), tone: "words", of: What },
  { name: "turns", label: _("Turns"), of: left },
  { name: "stop", label: _("Stopped in"), tone: "figure", of: stopped },
  { name: "away", label: _("Down for"), tone: "figure", of: away },
  { name: "version", label: _("Version"), of: ({ version }) => version },
];

export function History({ page }) {
  const { before } = queryParams();
  const { value, problem } = useFetched(page.changes, () => api.restarts({ before, limit: PAGE }), EVERY, [before]);
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || _("Loading…")}</p>`;
  const { restarts, more } = value;
  if (!restarts.length) return html`<p class="quiet-text">${before ? _("There is nothing older.") : _("It has never been stopped.")}</p>`;
  return html`
    <${Rows} label=${_("The latest restarts")} columns=${COLUMNS} rows=${restarts} keyOf=${({ id }) => id} />
    <${Pages} newest=${before && "#/restarts"} older=${more && addressOf("restarts", { before: restarts.at(-1).id })} />`;
}

function What({ order, phases }) {
  const crashed = order.kind === "crash";
  return html`<span class=${crashed ? "bad" : ""}>${KINDS[order.kind] ?? order.kind}</span>${reason(order)}
    ${crashed && html`<small>${_("The process ended without a stop; the next start found its turns open.")}</small>`}
    <${Phases} phases=${phases} />`;
}

function reason({ by, principal, now, kind }) {
  const inChat = principal && by === "chat" && _("requested in a chat by {person}", { person: principal });
  const asked = kind === "signal" ? "" : inChat || (ASKED[by]?.() ?? by);
  return [asked, now && _("immediately")].filter(Boolean).map((text) => `, ${text}`).join("");
}

/** The longest phase first. */
function Phases({ phases = {} }) {
  const longest = Object.entries(phases).sort(([, one], [, other]) => other - one);
  if (!longest.length) return null;
  return html`<details class="fold-out">
    <summary>${_n("{n} phase, the longest: {name}", "{n} phases, the longest: {name}", longest.length, { name: longest[0][0] })}</summary>
    <dl>${longest.map(([name, long]) => html`<div key=${name}><dt>${name}</dt><dd>${seconds(long)}</dd></div>`)}</dl>
  </details>`;
}

function left({ parked, interrupted, resumed }) {
  const parts = [
    parked && _n("{n} parked", "{n} parked", parked),
    interrupted && _n("{n} interrupted", "{n} interrupted", interrupted),
    resumed && _n("{n} resumed", "{n} resumed", resumed),
  ].filter(Boolean);
  return parts.join(", ") || _("none open");
}

function stopped({ stopped_at, order }) {
  return stopped_at === null ? "–" : lasted(Math.max(0, stopped_at - order.at));
}

/** A crash is detected by the next start: the time of the crash is unknown. */
function away({ stopped_at, ready_at, order }) {
  if (ready_at === null || order.kind === "crash") return "–";
  return lasted(Math.max(0, ready_at - (stopped_at ?? order.at)));
}
