// The navigation between the chats and the dashboard, and between its views.
import { useObservable } from "../observable.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { FIRST, VIEWS } from "../views.js";
import { Icon } from "./icons.js";
import { count } from "./times.js";

export function Sections({ page }) {
  const board = page.view !== null;
  return html`<div class="sections">
    <a href=${page.chatAddress} aria-current=${board ? undefined : "true"}><${Icon} name="bubble" /> ${_("Chats")}</a>
    <a href=${`#/${page.view ?? FIRST}`} aria-current=${board ? "true" : undefined}><${Icon} name="gauge" /> ${_("Dashboard")}</a>
  </div>`;
}

export function Views({ page }) {
  useObservable(page.pending);
  return html`<ul class="view-links">
    ${Object.entries(VIEWS).map(([name, { label, icon, waiting }]) => html`<li key=${name}>
      <a href=${`#/${name}`} class="chat-link" aria-current=${name === page.view ? "page" : undefined}><${Icon} name=${icon} /> <span class="title">${label}</span>${waiting && html`<${Count} number=${waiting(page)} />`}</a>
    </li>`)}
  </ul>`;
}

function Count({ number }) {
  return number ? html`<span class="count">${count(number)}<span class="visually-hidden"> ${_("waiting")}</span></span>` : null;
}
