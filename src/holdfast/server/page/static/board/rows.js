// A table of the dashboard: on a narrow page each row is a card with labelled values.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";

/**
 * `columns`: {name, label, of(row), tone?}. `tone` is the style of a cell: "figure" aligns numbers,
 * "words" wraps and takes the remaining width. The roles are explicit: a table that is drawn as
 * cards is one for a screen reader all the same.
 */
export function Rows({ label, columns, rows, keyOf }) {
  return html`<div class="table rows" tabindex="0" role="region" aria-label=${label}>
    <table role="table" aria-label=${label}>
      <thead role="rowgroup"><tr role="row">
        ${columns.map((column) => html`<th key=${column.name} role="columnheader" scope="col" class=${column.tone}>${column.label}</th>`)}
      </tr></thead>
      <tbody role="rowgroup">${rows.map((row) => html`<tr key=${keyOf(row)} role="row">
        ${columns.map((column) => html`<${Cell} key=${column.name} column=${column} row=${row} />`)}
      </tr>`)}</tbody>
    </table>
  </div>`;
}

function Cell({ column: { label, tone, of }, row }) {
  return html`<td role="cell" class=${tone} data-label=${label}>${of(row)}</td>`;
}

/** Links to older rows and to the newest; they are addresses, so that the back button works. */
export function Pages({ newest, older }) {
  if (!newest && !older) return null;
  return html`<nav class="pages" aria-label=${_("Pages")}>
    ${newest && html`<a class="quiet outlined" href=${newest}>${_("Newest")}</a>`}
    ${older && html`<a class="quiet outlined" href=${older}>${_("Older")}</a>`}
  </nav>`;
}
