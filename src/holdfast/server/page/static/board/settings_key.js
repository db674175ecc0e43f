// One key: its value, its origin, when a change takes effect; and the form that changes it.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { Field, readField } from "./settings_field.js";
import { readTables, TableFields, Tables } from "./settings_tables.js";

const EFFECTS = { "next turn": _("at the next turn"), "its account": _("its account reconnects"), restart: _("after a restart") };
const TAKES_EFFECT = {
  "next turn": _("Takes effect at the next turn."),
  "its account": _("Takes effect at once: its account reconnects."),
  restart: _("Takes effect after a restart."),
};

export function Key({ page, it, name, config, refresh, inFile }) {
  const [editing, setEditing] = useState(false);
  const button = useRef(null);
  const close = () => {
    setEditing(false);
    setTimeout(() => button.current?.focus());
  };
  return html`<li class=${it.origin === "default" ? "key" : "key set"}>
    <div class="name"><code>${name}</code>${it.pending_restart && html` <span class="badge">${_("pending")}</span>`}</div>
    <div class="value">${editing
      ? html`<${Form} page=${page} it=${it} name=${name} config=${config} refresh=${refresh} inFile=${inFile} onClose=${close} />`
      : html`<${Value} it=${it} />`}</div>
    ${!editing && html`<div class="origin-and-effect"><span>${it.origin === "default" ? _("default") : it.origin}</span><span>${EFFECTS[it.effect]}</span></div>
      ${(it.kind !== "tables" || it.fields) && html`<button ref=${button} type="button" class="round small" data-changes title=${_("Change")} aria-label=${_("Change {key}", { key: it.key })}
        onClick=${() => setEditing(true)}><${Icon} name="pencil" /></button>`}`}
  </li>`;
}

function Value({ it: { value, pending_restart, live_value, fields } }) {
  if (fields) return html`<${Tables} rows=${value} />`;
  return html`<${Written} value=${value} />${pending_restart && html`<small>${_("active until then: {value}", { value: html`<${Written} value=${live_value} />` })}</small>`}`;
}

export function Written({ value }) {
  if (value === null) return html`<em>${_("unset")}</em>`;
  if (value === "") return html`<em>${_("empty")}</em>`;
  if (Array.isArray(value)) return value.length ? html`<span class="items">${value.map((each, at) => html`<code key=${at}>${withCode(each)}</code>`)}</span>` : html`<em>${_("none")}</em>`;
  return html`<code>${withCode(value)}</code>`;
}

const withCode = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function Form({ page, it, name, config, refresh, inFile, onClose }) {
  const [state, setState] = useState({ acting: false, problem: "" });
  const form = useRef(null);
  useEffect(() => form.current.querySelector("input, select, textarea, button").focus(), []);
  const [Inside, read] = it.fields ? [TableFields, readTables] : [Field, readField];
  const act = async (change) => {
    setState({ acting: true, problem: "" });
    try {
      const done = await api.setConfig({ ...change, revision: config.revision });
      page.announce(changeNotice(it, done));
      await refresh();
      onClose();
    } catch (failure) {
      if (failure.status === 409) await refresh();
      setState({ acting: false, problem: failure.message });
    }
  };
  const save = (event) => {
    event.preventDefault();
    const value = read(it, form.current);
    act(value === null ? { unset: [it.key] } : { set: { [it.key]: value } });
  };
  const leave = (event) => event.key === "Escape" && (event.stopPropagation(), onClose());
  const elsewhere = it.origin !== "default" && it.origin !== inFile;
  return html`<form ref=${form} class="change" onSubmit=${save} onKeyDown=${leave}>
    <${Inside} it=${it} name=${name} invalid=${Boolean(state.problem)} />
    <small id=${`help-${it.key}`}>${help(it)} ${TAKES_EFFECT[it.effect]}</small>
    ${elsewhere && html`<small class="warns">${_("{variable} overrides the file: a value in the file has no effect while it is set.", { variable: it.origin })}</small>`}
    ${state.problem && html`<pre class="problem config-problem" role="alert" id=${`problem-${it.key}`}>${state.problem}</pre>`}
    <p class="actions">
      <button type="submit" class="primary" disabled=${state.acting}>${state.acting ? _("Saving…") : _("Save")}</button>
      ${it.in_file && html`<button type="button" class="quiet outlined" disabled=${state.acting} onClick=${() => act({ unset: [it.key] })}>${_("Reset to default")}</button>`}
      <button type="button" class="quiet" onClick=${onClose}>${_("Cancel")}</button>
    </p>
  </form>`;
}

function help({ kind, allowed }) {
  if (kind === "secret") return _("A reference, never the secret itself: env:NAME, or file:path relative to the home.");
  if (kind === "list") return _("One per line.");
  if (kind === "integer" || kind === "number") return `${allowed[0].toUpperCase()}${allowed.slice(1)}.`;
  return "";
}

function changeNotice(it, { number, pending_restart }) {
  return pending_restart.includes(it.key) ? _("{key} is saved, and takes effect after a restart.", { key: it.key }) : _("{key} is active, as configuration {number}.", { key: it.key, number });
}
