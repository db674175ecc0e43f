// A table of the dashboard: on a narrow page each of its rows is a card, with a name before each figure.
import { html } from "../vendor/preact-htm.module.js";

/**
 * `columns`: {name, label, of(row), tone?}. `tone` is the look of a cell: "figure" aligns numbers,
 * "words" may break and takes the room that is left. The roles are said: a table that is drawn as
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

/** The way to what is older, and back to the newest; addresses, so that they can be gone back over. */
export function Pages({ newest, older }) {
  if (!newest && !older) return null;
  return html`<nav class="pages" aria-label="Pages">
    ${newest && html`<a class="quiet outlined" href=${newest}>Newest</a>`}
    ${older && html`<a class="quiet outlined" href=${older}>Older</a>`}
  </nav>`;
}
