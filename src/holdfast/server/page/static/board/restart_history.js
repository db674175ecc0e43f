// Past stops of the gateway: the reason, who requested it, its turns, and its duration.
import { api } from "../api.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { lasted } from "../view/times.js";
import { addressOf, queryParams } from "./url_query.js";
import { many, seconds } from "./number_format.js";
import { Moment } from "./moment.js";
import { Pages, Rows } from "./rows.js";

const EVERY = 60; // seconds; the stream announces each one
const PAGE = 20;

const KINDS = { stop: "Stopped", signal: "Stopped by a signal", restart: "Restarted", replace: "Replaced", crash: "Crashed" };
const ASKED = {
  chat: "asked in a chat",
  cli: "asked on the machine",
  page: "asked on this page",
  signal: "by a signal",
  successor: "by its successor",
  nobody: "",
};
const COLUMNS = [
  { name: "when", label: "When", of: ({ order }) => html`<${Moment} at=${order.at} />` },
  { name: "what", label: "What", tone: "words", of: What },
  { name: "turns", label: "Turns", of: left },
  { name: "stop", label: "Stopped in", tone: "figure", of: stopped },
  { name: "away", label: "Away for", tone: "figure", of: away },
  { name: "version", label: "Version", of: ({ version }) => version },
];

export function History({ page }) {
  const { before } = queryParams();
  const { value, problem } = useFetched(page.changes, () => api.restarts({ before, limit: PAGE }), EVERY, [before]);
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || "Loading…"}</p>`;
  const { restarts, more } = value;
  if (!restarts.length) return html`<p class="quiet-text">${before ? "Nothing older is kept." : "It has never been stopped."}</p>`;
  return html`
    <${Rows} label="The last restarts" columns=${COLUMNS} rows=${restarts} keyOf=${({ id }) => id} />
    <${Pages} newest=${before && "#/restarts"} older=${more && addressOf("restarts", { before: restarts.at(-1).id })} />`;
}

function What({ order, phases }) {
  const crashed = order.kind === "crash";
  return html`<span class=${crashed ? "bad" : ""}>${KINDS[order.kind] ?? order.kind}</span>${reason(order)}
    ${crashed && html`<small>It left no word: what ran was found open by the next start.</small>`}
    <${Phases} phases=${phases} />`;
}

function reason({ by, principal, now, kind }) {
  const asked = kind === "signal" ? "" : ASKED[by] ?? by;
  const who = principal && by === "chat" ? ` by ${principal}` : "";
  return [asked && `, ${asked}${who}`, now && ", at once"].filter(Boolean).join("");
}

/** The longest phase first. */
function Phases({ phases = {} }) {
  const longest = Object.entries(phases).sort(([, one], [, other]) => other - one);
  if (!longest.length) return null;
  return html`<details class="fold-out">
    <summary>${many(longest.length, "phase")}, the longest: ${longest[0][0]}</summary>
    <dl>${longest.map(([name, long]) => html`<div key=${name}><dt>${name}</dt><dd>${seconds(long)}</dd></div>`)}</dl>
  </details>`;
}

function left({ parked, interrupted, resumed }) {
  const parts = [
    parked && `${parked} left at a step`,
    interrupted && `${interrupted} cut`,
    resumed && `${resumed} gone on with`,
  ].filter(Boolean);
  return parts.join(", ") || "none left";
}

function stopped({ stopped_at, order }) {
  return stopped_at === null ? "–" : lasted(Math.max(0, stopped_at - order.at));
}

/** A crash is detected by the next start: the time of the crash is unknown. */
function away({ stopped_at, ready_at, order }) {
  if (ready_at === null || order.kind === "crash") return "–";
  return lasted(Math.max(0, ready_at - (stopped_at ?? order.at)));
}
