// A list of tables, as `[[model.fallbacks]]`: shown one below the other, and changed as a whole.
import { _ } from "../translation.js";
import { html, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { readValue } from "./settings_field.js";

/** The keys of a list form one key, which holds its tables. */
export function withLists({ keys, lists, pending_restart }) {
  const known = new Map(lists.map((list) => [list.key, list]));
  const found = [];
  for (const key of keys) {
    const name = key.key.split("[")[0];
    const list = known.get(name);
    if (!list) found.push(key);
    else if (found.at(-1)?.key !== name) {
      const waiting = pending_restart.some((each) => each === name || each.startsWith(`${name}[`));
      found.push({ ...key, key: name, kind: "tables", value: list.rows, fields: list.fields, pending_restart: waiting });
    }
  }
  return found;
}

export function Tables({ rows }) {
  if (!rows.length) return html`<em>${_("none")}</em>`;
  return html`<ol class="tables">${rows.map((row, at) => html`<li key=${at}><span class="items">
    ${Object.entries(row).map(([name, value]) => html`<code key=${name}>${name} ${typeof value === "string" ? value : JSON.stringify(value)}</code>`)}
  </span></li>`)}</ol>`;
}

/** Their order matters, so each can be moved up. */
export function TableFields({ it, name, invalid }) {
  const [rows, setRows] = useState(() => it.value.map((row, at) => ({ row, id: at })));
  const adding = useRef(null);
  const next = useRef(rows.length);
  const add = () => setRows([...rows, { row: {}, id: next.current++ }]);
  const move = (at) => setRows(rows.with(at, rows[at - 1]).with(at - 1, rows[at]));
  const remove = (gone) => {
    setRows(rows.filter(({ id }) => id !== gone));
    adding.current.focus(); // else the keyboard focus would be lost
  };
  const described = `help-${it.key}${invalid ? ` problem-${it.key}` : ""}`;
  return html`<div class="table-list" role="group" aria-label=${name} aria-describedby=${described}>
    ${rows.map(({ row, id }, at) => html`<fieldset key=${id}>
      <legend>${name} ${at + 1}</legend>
      ${it.fields.map((field) => html`<label key=${field.name}>${field.name}<${Field} field=${field} value=${row[field.name]} /></label>`)}
      <p class="row-actions">
        ${at > 0 && html`<button type="button" class="round small" title=${_("Move up")} aria-label=${_("Move {name} {number} up", { name, number: at + 1 })} onClick=${() => move(at)}><${Icon} name="up" /></button>`}
        <button type="button" class="round small" title=${_("Remove")} aria-label=${_("Remove {name} {number}", { name, number: at + 1 })} onClick=${() => remove(id)}><${Icon} name="trash" /></button>
      </p>
    </fieldset>`)}
    <p><button ref=${adding} type="button" class="quiet outlined" onClick=${add}><${Icon} name="plus" /> ${_("Add one")}</button></p>
  </div>`;
}

function Field({ field: { name, kind, choices, required, default: usual }, value }) {
  if (kind === "boolean" || kind === "choice") {
    const names = kind === "boolean" ? ["true", "false"] : choices;
    return html`<select name=${name} required=${required}>
      <option value="" selected=${value === undefined}>${required ? _("choose") : usual === null ? _("unset") : String(usual)}</option>
      ${names.map((each) => html`<option key=${each} value=${each} selected=${each === String(value)}>${each}</option>`)}
    </select>`;
  }
  if (kind === "list") return html`<textarea name=${name} rows="2" placeholder=${_("one per line")} spellcheck=${false} defaultValue=${(value ?? []).join("\n")}></textarea>`;
  const number = kind === "integer" || kind === "number";
  const kept = { required, autocomplete: "off", spellcheck: false, defaultValue: value ?? "" };
  return html`<input name=${name} type=${number ? "number" : "text"} step=${kind === "integer" ? 1 : "any"} ...${kept}
    placeholder=${kind === "secret" ? "env:NAME" : String(usual ?? "")} />`;
}

/** The value for the gateway; null: no table is left. Empty fields get their default. */
export function readTables({ fields }, form) {
  const rows = [...form.querySelectorAll("fieldset")].map((table) => {
    const entered = fields.map(({ name, kind }) => [name, kind, table.querySelector(`[name="${name}"]`).value.trim()]);
    return Object.fromEntries(entered.filter(([, , value]) => value !== "").map(([name, kind, value]) => [name, readValue(kind, value)]));
  });
  return rows.length ? rows : null;
}
