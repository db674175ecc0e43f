// The versions of the configuration: when, by whom, what changed; and the rollback to one of them.
import { api } from "../api.js";
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { Moment } from "./moment.js";
import { Pages, Rows } from "./rows.js";

const EVERY = 60; // seconds; the stream announces each one
const PAGE = 20;
const NAMED = 6; // keys that are named in a row
const SOURCES = { start: _("gateway start"), reload: _("reloaded"), file: _("file changed"), set: _("set"), rollback: _("rolled back") };

const COLUMNS = [
  { name: "number", label: _("Number"), of: ({ number, active }) => html`<span><a href=${`#/settings/${number}`}>${number}</a>${active && html` <span class="badge good">${_("active")}</span>`}</span>` },
  { name: "at", label: _("Since"), of: ({ at }) => html`<${Moment} at=${at} />` },
  { name: "by", label: _("By"), of: ({ by, source }) => html`${by}${source !== by && html`<small>${SOURCES[source] ?? source}</small>`}` },
  { name: "changed", label: _("Changed"), tone: "words", of: changed },
];

export function Past({ page, number }) {
  const before = beforeOf();
  const { value, problem } = useFetched(page.changes, () => api.configHistory({ before, limit: PAGE }), EVERY, [before, number]);
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || _("Loading…")}</p>`;
  const { versions, more } = value;
  return html`<section class="card flush" aria-label=${_("Earlier configurations")}>
    ${versions.length > 0
      ? html`<${Rows} label=${_("Configurations")} columns=${COLUMNS} rows=${versions} keyOf=${({ number }) => number} />`
      : html`<p class="quiet-text">${_("There is none yet.")}</p>`}
    <${Pages} newest=${before && "#/settings/history"} older=${more && `#/settings/history/before=${versions.at(-1).number}`} />
  </section>`;
}

/** The third part of the address; the second is the section. */
function beforeOf() {
  const [, , , text = ""] = location.hash.split("/");
  return new URLSearchParams(text).get("before") ?? undefined;
}

function changed({ changed, source }) {
  if (!changed.length) return html`<small>${source === "start" ? _("as the gateway found it") : _("nothing in the file: a variable or a secret")}</small>`;
  const rest = changed.length - NAMED;
  return html`<span class="items">${changed.slice(0, NAMED).map((key) => html`<code key=${key}>${key}</code>`)}${rest > 0 && ` ${_n("and {n} more", "and {n} more", rest)}`}</span>`;
}

export function ConfigVersion({ page, config, number, refresh }) {
  const against = new URLSearchParams(location.hash.split("/")[3] ?? "").get("against") ?? undefined;
  const { value, problem } = useFetched(page.changes, () => api.configVersion(number, { against }), 0, [against]);
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || _("Loading…")}</p>`;
  const back = () => page.set({ dialog: {
    kind: "confirm", title: _("Roll back to configuration {number}?", { number }), verb: _("Roll back"),
    sentences: [_("Writes holdfast.toml as it was then, if it is still valid. This creates a new configuration number, and can be undone in the same way.")],
    act: async () => {
      const done = await api.rollBack({ to: value.number, revision: config.revision });
      await refresh();
      location.hash = `#/settings/${done.number}`;
    },
  } });
  return html`<section class="card" aria-labelledby="kept">
    <header class="between"><h2 id="kept">${_("Configuration {number}", { number: value.number })}</h2>
      ${value.active ? html`<span class="badge good">${_("active")}</span>` : html`<button type="button" class="quiet outlined" data-changes onClick=${back}>${_("Roll back…")}</button>`}</header>
    <p class="facts"><span>${_("since {time}, by {who}", { time: html`<${Moment} at=${value.at} />`, who: value.by })}${value.source !== value.by && ` (${SOURCES[value.source] ?? value.source})`}</span></p>
    <nav class="tabs links" aria-label=${_("Compare with")}>
      <a href=${`#/settings/${number}`} aria-current=${against ? undefined : "page"}>${_("Compare with the one before")}</a>
      ${config.number > 0 && !value.active && html`<a href=${`#/settings/${number}/against=${config.number}`} aria-current=${against ? "page" : undefined}>${_("Compare with the active one")}</a>`}
    </nav>
    <${Difference} value=${value} />
    <details class="fold-out"><summary>${_("Full text")}</summary><pre class="config-text"><code>${value.text || _("There was no file.")}</code></pre></details>
    <p class="back-link"><a href="#/settings/history">${_("All configurations")}</a></p>
  </section>`;
}

function Difference({ value: { diff, against } }) {
  if (!diff.length) return html`<p class="quiet-text">${against ? _("The file is the same as in configuration {number}; variables or secrets changed.", { number: against }) : _("There was no configuration before this one, and no file.")}</p>`;
  return html`<pre class="diff" tabindex="0" role="region" aria-label=${against ? _("Differences from configuration {number}", { number: against }) : _("Full text")}><code>${diff.map((line, at) => html`<span key=${at} class=${KINDS[line[0]] ?? ""}>${line}
</span>`)}</code></pre>`;
}

const KINDS = { "+": "added", "-": "removed", "@": "hunk" };
