// The versions of the configuration: when, by whom, what changed; and the rollback to one of them.
import { api } from "../api.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { addressOf } from "./url_query.js";
import { Moment } from "./moment.js";
import { Pages, Rows } from "./rows.js";

const EVERY = 60; // seconds; the stream announces each one
const PAGE = 20;
const NAMED = 6; // keys that are named in a row
const SOURCES = { start: "a start", reload: "reloaded", file: "the file was changed", set: "set", rollback: "put back" };

const COLUMNS = [
  { name: "number", label: "Number", of: ({ number, active }) => html`<span><a href=${`#/settings/${number}`}>${number}</a>${active && html` <span class="badge good">active</span>`}</span>` },
  { name: "at", label: "Since", of: ({ at }) => html`<${Moment} at=${at} />` },
  { name: "by", label: "By", of: ({ by, source }) => html`${by}${source !== by && html`<small>${SOURCES[source] ?? source}</small>`}` },
  { name: "changed", label: "Changed", tone: "words", of: changed },
];

export function Past({ page, number }) {
  const before = beforeOf();
  const { value, problem } = useFetched(page.changes, () => api.configHistory({ before, limit: PAGE }), EVERY, [before, number]);
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || "Loading…"}</p>`;
  const { versions, more } = value;
  return html`<section class="card flush" aria-label="Earlier configurations">
    ${versions.length > 0
      ? html`<${Rows} label="Configurations" columns=${COLUMNS} rows=${versions} keyOf=${({ number }) => number} />`
      : html`<p class="quiet-text">None is kept yet.</p>`}
    <${Pages} newest=${before && "#/settings/history"} older=${more && `#/settings/history/before=${versions.at(-1).number}`} />
  </section>`;
}

/** The third part of the address; the second is the section. */
function beforeOf() {
  const [, , , text = ""] = location.hash.split("/");
  return new URLSearchParams(text).get("before") ?? undefined;
}

function changed({ changed, source }) {
  if (!changed.length) return html`<small>${source === "start" ? "as it was found" : "nothing in the file: a variable or a secret"}</small>`;
  const rest = changed.length - NAMED;
  return html`<span class="items">${changed.slice(0, NAMED).map((key) => html`<code key=${key}>${key}</code>`)}${rest > 0 && ` and ${rest} more`}</span>`;
}

export function ConfigVersion({ page, config, number, refresh }) {
  const against = new URLSearchParams(location.hash.split("/")[3] ?? "").get("against") ?? undefined;
  const { value, problem } = useFetched(page.changes, () => api.configVersion(number, { against }), 0, [against]);
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || "Loading…"}</p>`;
  const back = () => page.set({ dialog: {
    kind: "confirm", title: `Put configuration ${number} back?`, verb: "Put it back",
    sentences: [`holdfast.toml is written as it was then, if it is in order by the rules of today. It gets a number of its own, and this can be undone in the same way.`],
    act: async () => {
      const done = await api.rollBack({ to: value.number, revision: config.revision });
      await refresh();
      location.hash = `#/settings/${done.number}`;
    },
  } });
  return html`<section class="card" aria-labelledby="kept">
    <header class="between"><h2 id="kept">Configuration ${value.number}</h2>
      ${value.active ? html`<span class="badge good">active</span>` : html`<button type="button" class="quiet outlined" data-changes onClick=${back}>Put it back…</button>`}</header>
    <p class="facts"><span>since <${Moment} at=${value.at} />, by ${value.by}${value.source !== value.by && ` (${SOURCES[value.source] ?? value.source})`}</span></p>
    <nav class="tabs links" aria-label="What it is held against">
      <a href=${`#/settings/${number}`} aria-current=${against ? undefined : "page"}>Against the one before</a>
      ${config.number > 0 && !value.active && html`<a href=${`#/settings/${number}/against=${config.number}`} aria-current=${against ? "page" : undefined}>Against the active one</a>`}
    </nav>
    <${Difference} value=${value} />
    <details class="fold-out"><summary>The whole text</summary><pre class="config-text"><code>${value.text || "There was no file."}</code></pre></details>
    <p class="back-link"><a href="#/settings/history">All configurations</a></p>
  </section>`;
}

function Difference({ value: { diff, against } }) {
  if (!diff.length) return html`<p class="quiet-text">${against ? `The file says the same as in ${against}; what changed were variables or secrets.` : "There was none before it, and there was no file."}</p>`;
  return html`<pre class="diff" tabindex="0" role="region" aria-label=${against ? `What differs from configuration ${against}` : "Its text"}><code>${diff.map((line, at) => html`<span key=${at} class=${KINDS[line[0]] ?? ""}>${line}
</span>`)}</code></pre>`;
}

const KINDS = { "+": "added", "-": "removed", "@": "hunk" };
