// The keys by section, with a search; each can be changed in place.
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { queryParams, setQuery } from "./url_query.js";
import { Choice, TextFilter } from "./filters.js";
import { Key } from "./settings_key.js";
import { withLists } from "./settings_tables.js";

const WHICH = { "": _("All keys"), set: _("Changed from the default"), pending: _("Waiting for a restart") };
const IN_FILE = "holdfast.toml";

export function Keys({ page, config, refresh }) {
  const { q = "", which = "" } = queryParams();
  const setFilter = (change, how) => setQuery(page, "settings", { q, which, ...change }, how);
  const found = withLists(config).filter((key) => isKey(key) && fits(key, q, which));
  const sections = Map.groupBy ? Map.groupBy(found, sectionOf) : grouped(found);
  return html`
    <div class="filters">
      <${TextFilter} label=${_("Search")} value=${q} placeholder=${_("busy, timeout, telegram …")} onText=${(text) => setFilter({ q: text }, { typed: true })} />
      <${Choice} label=${_("Show")} value=${which} choices=${WHICH} onChoose=${(which) => setFilter({ which })} />
      <p class="quiet-text item-count" role="status">${_n("{n} key", "{n} keys", found.length)}</p>
    </div>
    ${found.length === 0 && html`<${None} q=${q} which=${which} />`}
    ${[...sections].map(([section, keys]) => html`<${Section} key=${section} page=${page} section=${section} keys=${keys} config=${config} refresh=${refresh}
      open=${Boolean(q || which) || keys.some(({ origin }) => origin !== "default")} />`)}`;
}

/** Prices have a table of their own. */
const isKey = ({ key }) => !key.startsWith("prices.");

function fits({ key, value, origin, pending_restart }, q, which) {
  if (which === "set" && origin === "default") return false;
  if (which === "pending" && !pending_restart) return false;
  const text = `${key} ${JSON.stringify(value)} ${origin}`.toLowerCase();
  return q.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** The table of a key in the file; for a platform, the table of its account. */
function sectionOf({ key }) {
  const [section, name, inner, account] = key.split(".");
  if (section !== "platforms") return section;
  return inner === "accounts" ? `platforms.${name}.accounts.${account}` : `platforms.${name}`;
}

function grouped(keys) {
  const groups = new Map();
  for (const key of keys) groups.set(sectionOf(key), [...(groups.get(sectionOf(key)) ?? []), key]);
  return groups;
}

function Section({ page, section, keys, config, refresh, open }) {
  const set = keys.filter(({ origin }) => origin !== "default").length;
  return html`<details class="card flush section" open=${open}>
    <summary><h2>${section}</h2><span class="item-count quiet-text">${_n("{n} key", "{n} keys", keys.length)}${set > 0 && `, ${_n("{n} set", "{n} set", set)}`}</span></summary>
    <ul class="keys" aria-label=${section}>
      ${keys.map((key) => html`<${Key} key=${key.key} page=${page} it=${key} name=${key.key.slice(section.length + 1)} config=${config} refresh=${refresh} inFile=${IN_FILE} />`)}
    </ul>
  </details>`;
}

function None({ q, which }) {
  return html`<div class="card empty-hint">
    <p><strong>${_("No key matches.")}</strong> ${which === "pending" ? _("No key waits for a restart.") : q ? _("No key has “{text}” in its name, its value or its origin.", { text: q }) : _("Every key has its default.")}</p>
    <p>${_("To add a platform, run {command}; its keys are then listed here.", { command: html`<code>holdfast platforms add telegram</code>` })}</p>
  </div>`;
}
