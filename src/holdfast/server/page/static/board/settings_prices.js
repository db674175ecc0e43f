// The prices of models: a table in which they are set, added and removed.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { currency, money } from "./number_format.js";

const PRICE_EXAMPLE = "0.00";
const FIELDS = { input: _("Input"), output: _("Output"), cached: _("Cached input") };

export function Prices({ page, config, refresh }) {
  const [editing, setEditing] = useState(null); // the name of a model; "": a new one
  const prices = pricesOf(config.keys);
  const change = async (changes) => {
    await api.setConfig({ ...changes, revision: config.revision }).finally(refresh);
    setEditing(null);
    page.announce(_("The prices are active."));
  };
  return html`<section class="card flush" aria-labelledby="prices">
    <h2 id="prices">${_("Prices")}</h2>
    <p class="quiet-text">${_("Price of a million tokens, in {currency} (the setting {key}). The costs of turns and sessions and the chart of costs use these prices at once, also for past usage.", { currency: currency(), key: html`<code>gateway.currency</code>` })}</p>
    ${prices.size > 0 || editing === "" ? html`<div class="table rows prices"><table role="table" aria-label=${_("Prices")}>
      <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">${_("Model")}</th>
        ${Object.entries(FIELDS).map(([name, label]) => html`<th key=${name} role="columnheader" scope="col" class="figure">${label}</th>`)}
        <th role="columnheader" scope="col"><span class="visually-hidden">${_("Change")}</span></th></tr></thead>
      <tbody role="rowgroup">
        ${[...prices].map(([model, price]) => (editing === model
          ? html`<${Edit} key=${model} model=${model} price=${price} known=${prices} change=${change} onClose=${() => setEditing(null)} />`
          : html`<${Price} key=${model} page=${page} model=${model} price=${price} change=${change} onEdit=${() => setEditing(model)} />`))}
        ${editing === "" && html`<${Edit} key="" model="" price=${{}} known=${prices} change=${change} onClose=${() => setEditing(null)} />`}
      </tbody></table></div>`
    : html`<${Teaching} />`}
    ${editing === null && html`<p class="actions pages" data-changes><button type="button" class="quiet outlined" onClick=${() => setEditing("")}><${Icon} name="plus" /> ${_("Add a model")}</button></p>`}
  </section>`;
}

/** By model: its name may have dots, the field has none. */
function pricesOf(keys) {
  const prices = new Map();
  for (const { key, value } of keys.filter(({ key }) => key.startsWith("prices."))) {
    const at = key.lastIndexOf(".");
    const model = key.slice("prices.".length, at);
    prices.set(model, { ...prices.get(model), [key.slice(at + 1)]: value });
  }
  return prices;
}

/** The quoted key of a model, because its name may have dots. */
const keyOf = (model) => (model.includes('"') ? `prices.'${model}'` : `prices."${model}"`);

function Price({ page, model, price, change, onEdit }) {
  const remove = () => page.set({ dialog: {
    kind: "confirm", title: _("Remove this price?"), verb: _("Remove"), danger: true,
    sentences: [_("The cost of {model} is then unknown, and not shown anywhere.", { model })],
    act: () => change({ unset: [keyOf(model)] }),
  } });
  return html`<tr role="row"><td role="cell" data-label=${_("Model")}><code>${model}</code></td>
    ${Object.entries(FIELDS).map(([name, label]) => html`<td key=${name} role="cell" class="figure" data-label=${label}>${price[name] !== undefined ? money(price[name]) : html`<em title=${_("same as other input")}>–</em>`}</td>`)}
    <td role="cell" data-label=""><span class="row-actions" data-changes>
      <button type="button" class="round small" title=${_("Change")} aria-label=${_("Change the price of {model}", { model })} onClick=${onEdit}><${Icon} name="pencil" /></button>
      <button type="button" class="round small" title=${_("Remove")} aria-label=${_("Remove the price of {model}", { model })} onClick=${remove}><${Icon} name="trash" /></button>
    </span></td></tr>`;
}

function Edit({ model, price, known, change, onClose }) {
  const [state, setState] = useState({ acting: false, problem: "" });
  const row = useRef(null);
  useEffect(() => row.current.querySelector("input").focus(), []);
  const save = async () => {
    const { name, ...given } = Object.fromEntries([...row.current.querySelectorAll("input")].map((field) => [field.name, field.value.trim()]));
    if (!name) return setState({ acting: false, problem: _("Enter the name of a model, or the beginning of names and a *.") });
    if (name !== model && known.has(name)) return setState({ acting: false, problem: _("{model} has a price already.", { model: name }) });
    setState({ acting: true, problem: "" });
    const numbers = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== "").map(([field, value]) => [field, Number(value)]));
    try {
      await change({ set: { [keyOf(name)]: numbers }, unset: model && name !== model ? [keyOf(model)] : [] });
    } catch (failure) {
      setState({ acting: false, problem: failure.message });
    }
  };
  const onKey = (event) => {
    if (event.key === "Enter" && event.target.tagName === "INPUT") save();
    else if (event.key === "Escape") onClose();
  };
  return html`<tr ref=${row} role="row" class="changing" onKeyDown=${onKey}>
    <td role="cell" data-label=${_("Model")}><input name="name" aria-label=${_("Model")} defaultValue=${model} placeholder=${_("gpt-5 or gpt-*")} maxlength="200" autocomplete="off" spellcheck=${false} />
      ${state.problem && html`<pre class="problem config-problem" role="alert">${state.problem}</pre>`}</td>
    ${Object.entries(FIELDS).map(([name, label]) => html`<td key=${name} role="cell" class="figure" data-label=${label}><input name=${name} aria-label=${label} type="number" min="0" step="any"
      inputmode="decimal" defaultValue=${price[name] ?? ""} placeholder=${name === "cached" ? _("same as input") : PRICE_EXAMPLE} /></td>`)}
    <td role="cell" data-label=""><span class="row-actions">
      <button type="button" class="primary" disabled=${state.acting} onClick=${save}>${state.acting ? _("Saving…") : _("Save")}</button>
      <button type="button" class="quiet" onClick=${onClose}>${_("Cancel")}</button>
    </span></td></tr>`;
}

function Teaching() {
  return html`<div class="empty-hint"><p><strong>${_("No prices are set")}</strong></p><p>${_("No costs are shown without prices. Add the model that you use, with the price of its vendor for a million tokens.")}</p>
    <p>${_("A name that ends in {star} applies to every model whose name begins like that.", { star: html`<code>*</code>` })}</p></div>`;
}
