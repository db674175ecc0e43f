// The audit: filtered, followed live, verified and exported.
import { address, api } from "../api.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { Icon } from "../view/icons.js";
import { addressOf, setQuery, queryParams } from "./url_query.js";
import { Chain } from "./audit_chain.js";
import { auditColumns } from "./audit_row.js";
import { Choice, TextFilter } from "./filters.js";
import { Pages, Rows } from "./rows.js";

const EVERY = 60; // seconds; the stream announces each new row
const PAGE = 50;

const KINDS = {
  "": _("Everything"),
  tool: _("Tool calls"),
  approval: _("Approvals"),
  permission: _("Permissions"),
  refused: _("Refusals"),
  command: _("Commands"),
  turn: _("Turns stopped"),
  message: _("Messages sent"),
  delivery: _("Deliveries sent again"),
  pairing: _("Pairing"),
  session: _("Sessions"),
  job: _("Jobs"),
  memory: _("Memory"),
  account: _("Accounts"),
  process: _("Processes"),
  token: _("Tokens"),
  gateway: _("The gateway"),
  configuration: _("Configuration"),
  backup: _("Backups"),
  audit: _("The audit itself"),
};

const FORMATS = { jsonl: "JSON Lines", csv: "CSV" };

export function View({ page }) {
  const { kind = "", actor = "", session = "", turn = "", text = "", before } = queryParams();
  const filter = { kind, actor, session, turn, text };
  const query = { ...filter, before, limit: PAGE };
  const { value, problem } = useFetched(page.audits, () => api.audit(query), EVERY, Object.values(query));
  const narrow = (change, how) => setQuery(page, "audit", { ...filter, ...change }, how);
  const typed = { typed: true };
  return html`
    <div class="filters">
      <${Choice} label=${_("What")} value=${kind} choices=${kind in KINDS ? KINDS : { ...KINDS, [kind]: kind }} onChoose=${(chosen) => narrow({ kind: chosen })} />
      <${TextFilter} label=${_("Who")} value=${actor} placeholder=${_("alice, operator, job:3")} onText=${(text) => narrow({ actor: text }, typed)} />
      <${TextFilter} label=${_("Session")} value=${session} placeholder=${_("its id")} onText=${(text) => narrow({ session: text }, typed)} />
      <${TextFilter} label=${_("Text")} value=${text} placeholder=${_("anywhere in a row")} onText=${(text) => narrow({ text: text }, typed)} />
    </div>
    <${Chain}>
      ${Object.entries(FORMATS).map(([format, label]) => html`<a key=${format} class="quiet outlined" data-changes download
        href=${address.audit({ ...filter, format })}><${Icon} name="download" /> ${label}</a>`)}
    <//>
    ${turn && html`<p>${_("Only turn {turn}.", { turn: html`<code>${turn}</code>` })} <a href=${addressOf("audit", { ...filter, turn: "" })}>${_("All turns")}</a></p>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">${_("Loading…")}</p>`}
    ${value && html`<section class="card flush" aria-label=${_("Rows of the audit")}>
      <${List} value=${value} narrowed=${Object.values(filter).some(Boolean)} newest=${before && addressOf("audit", filter)}
        older=${value.more && addressOf("audit", { ...filter, before: value.rows.at(-1).seq })} />
    </section>`}`;
}

function List({ value: { rows }, narrowed, newest, older }) {
  if (!rows.length) {
    return html`<div class="empty-hint">
      <p><strong>${narrowed ? _("No row matches.") : newest ? _("There is nothing older.") : _("The audit is empty.")}</strong></p>
      <p>${_("Each tool call, each approval and each change made here or on the machine is a row, written together with the change itself. A chat in which no tool runs leaves none.")}</p>
      <${Pages} newest=${newest} />
    </div>`;
  }
  return html`
    <${Rows} label=${_("Audit")} columns=${auditColumns} rows=${rows} keyOf=${({ seq }) => seq} />
    <${Pages} newest=${newest} older=${older} />`;
}
