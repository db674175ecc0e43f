// The audit: filtered, followed live, verified and exported.
import { address, api } from "../api.js";
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
  "": "Everything",
  tool: "Tool calls",
  approval: "Approvals",
  permission: "Permissions",
  refused: "Refusals",
  command: "Commands",
  turn: "Turns stopped",
  message: "Messages sent",
  delivery: "Deliveries sent again",
  pairing: "Pairing",
  session: "Sessions",
  job: "Jobs",
  memory: "Memory",
  account: "Accounts",
  process: "Processes",
  token: "Tokens",
  gateway: "The gateway",
  configuration: "Configuration",
  backup: "Backups",
  audit: "The audit itself",
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
      <${Choice} label="What" value=${kind} choices=${kind in KINDS ? KINDS : { ...KINDS, [kind]: kind }} onChoose=${(chosen) => narrow({ kind: chosen })} />
      <${TextFilter} label="Who" value=${actor} placeholder="alice, operator, job:3" onText=${(text) => narrow({ actor: text }, typed)} />
      <${TextFilter} label="Session" value=${session} placeholder="its id" onText=${(text) => narrow({ session: text }, typed)} />
      <${TextFilter} label="Words" value=${text} placeholder="anywhere in a row" onText=${(text) => narrow({ text: text }, typed)} />
    </div>
    <${Chain}>
      ${Object.entries(FORMATS).map(([format, label]) => html`<a key=${format} class="quiet outlined" data-changes download
        href=${address.audit({ ...filter, format })}><${Icon} name="download" /> ${label}</a>`)}
    <//>
    ${turn && html`<p>Of turn <code>${turn}</code> alone. <a href=${addressOf("audit", { ...filter, turn: "" })}>Of all turns</a></p>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">Loading…</p>`}
    ${value && html`<section class="card flush" aria-label="Rows of the audit">
      <${List} value=${value} narrowed=${Object.values(filter).some(Boolean)} newest=${before && addressOf("audit", filter)}
        older=${value.more && addressOf("audit", { ...filter, before: value.rows.at(-1).seq })} />
    </section>`}`;
}

function List({ value: { rows }, narrowed, newest, older }) {
  if (!rows.length) {
    return html`<div class="empty-hint">
      <p><strong>${narrowed ? "No row is like that." : newest ? "There is nothing older." : "Nothing is in the audit yet."}</strong></p>
      <p>Each call of a tool, each approval and whatever is changed here or on the machine is a row, written in the same moment as the thing itself. A chat in which no tool runs leaves none.</p>
      <${Pages} newest=${newest} />
    </div>`;
  }
  return html`
    <${Rows} label="Audit" columns=${auditColumns} rows=${rows} keyOf=${({ seq }) => seq} />
    <${Pages} newest=${newest} older=${older} />`;
}
