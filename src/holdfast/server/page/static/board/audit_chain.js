// Verifies the hash chain of the audit on request: every row is read.
import { api } from "../api.js";
import { _, _n } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { CopyButton } from "../view/copy.js";
import { Icon } from "../view/icons.js";
import { count } from "./number_format.js";

/** `children`: other actions on the whole audit. */
export function Chain({ children }) {
  const [state, setState] = useState({ found: null, problem: "", acting: false });
  const check = async () => {
    setState({ ...state, acting: true });
    try {
      setState({ found: await api.verifyAudit(), problem: "", acting: false });
    } catch (failure) {
      setState({ ...state, problem: failure.message, acting: false });
    }
  };
  return html`<div class="between chain">
    <div role="status"><${Result} state=${state} /></div>
    <p class="actions">
      <button type="button" class="quiet outlined" disabled=${state.acting} onClick=${check}>${state.acting ? _("Checking…") : _("Verify the chain")}</button>
      ${children}
    </p>
  </div>`;
}

function Result({ state: { found, problem } }) {
  if (problem) return html`<p class="problem">${problem}</p>`;
  if (!found) return html`<p>${_("Each row is chained to the one before it: a changed or removed row breaks the chain.")}</p>`;
  if (!found.rows) return html`<p>${_("There is no row yet.")}</p>`;
  return found.broken.length ? html`<${Broken} found=${found} />` : html`<${Whole} found=${found} />`;
}

function Whole({ found: { rows, first, last, head } }) {
  return html`<p class="no-problems"><${Icon} name="check" /> ${_n("The chain of {n} row is intact, No. {first} to {last}.", "The chain of {n} rows is intact, No. {first} to {last}.", rows, { first: count(first), last: count(last) })}</p>
    <p class="inline-links"><span>${_("Hash of the last row, to prove later that no row was removed at the end: {hash}", { hash: html`<code>${head.slice(0, 12)}…</code>` })}</span> <${CopyButton} text=${head} /></p>`;
}

function Broken({ found: { broken } }) {
  return html`<p class="counts-note alarm">${_("The audit was changed after it was written.")}</p>
    <ul>${broken.map((what) => html`<li key=${what} class="problem">${what}</li>`)}</ul>`;
}
