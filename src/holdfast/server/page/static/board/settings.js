// Settings: the keys of the configuration, the prices of models, tokens, and earlier versions.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { Moment } from "./moment.js";
import { Notices } from "./settings_notices.js";
import { Keys } from "./settings_keys.js";
import { Past, ConfigVersion } from "./settings_history.js";
import { Prices } from "./settings_prices.js";
import { Tokens } from "./settings_tokens.js";

const EVERY = 60; // seconds; the stream announces changes of the configuration
const TABS = { "": _("Keys"), prices: _("Prices"), tokens: _("Tokens"), history: _("History") };

export function View({ page }) {
  const part = page.part ?? "";
  const { value: config, problem, refresh } = useFetched(page.changes, api.config, EVERY);
  return html`
    <div class="filters">
      <nav class="tabs links" aria-label=${_("Settings")}>${Object.entries(TABS).map(([name, label]) => html`<a key=${name}
        href=${name ? `#/settings/${name}` : "#/settings"} aria-current=${opened(part) === name ? "page" : undefined}>${label}</a>`)}</nav>
      ${config && html`<p class="facts"><span>${configStatus(config)}</span></p>`}
    </div>
    ${problem && page.connected && html`<p class="problem" role="alert">${problem}</p>`}
    ${config && html`<${Notices} page=${page} config=${config} />`}
    ${config ? html`<${Shown} page=${page} part=${part} config=${config} refresh=${refresh} />` : !problem && html`<p class="quiet-text">${_("Loading…")}</p>`}`;
}

/** The section of an address; a version belongs to the history; null: an unknown section. */
const opened = (part) => (Object.hasOwn(TABS, part) ? part : /^\d+$/.test(part) ? "history" : null);

function Shown({ page, part, config, refresh }) {
  if (opened(part) === null) return html`<p class="card empty-hint" role="alert">${_("Settings have no section “{name}”.", { name: part })}</p>`;
  if (part === "prices") return html`<${Prices} page=${page} config=${config} refresh=${refresh} />`;
  if (part === "tokens") return html`<${Tokens} page=${page} />`;
  if (part === "history") return html`<${Past} page=${page} number=${config.number} />`;
  if (part) return html`<${ConfigVersion} key=${part} page=${page} config=${config} number=${part} refresh=${refresh} />`;
  return html`<${Keys} page=${page} config=${config} refresh=${refresh} />`;
}

function configStatus({ number, since, path }) {
  if (!number) return html`<code>${path}</code>`;
  return _("Configuration {number} since {time}, from {file}", { number: html`<a href=${`#/settings/${number}`}>${number}</a>`, time: html`<${Moment} at=${since} />`, file: html`<code>${path}</code>` });
}
