// The whole page: the sidebar, the conversation or a view, and the announcements for screen readers.
import { useObservable } from "../observable.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Board } from "./board.js";
import { Chat } from "./chat.js";
import { Dialog } from "./dialog.js";
import { useKeys } from "./keys.js";
import { Login } from "./login.js";
import { useNarrow } from "./narrow.js";
import { Panel } from "./panel.js";
import { Sidebar } from "./sidebar.js";

export function App({ page }) {
  useObservable(page);
  useKeys(page);
  const narrow = useNarrow();
  if (page.loggedOut) return html`<${Login} />`;
  const covered = narrow && page.drawer;
  return html`
    <a class="skip" href="#message" onClick=${toMiddle}>${page.view ? _("Skip to the view") : _("Skip to the message field")}</a>
    <div class=${page.panel ? "frame with-panel" : "frame"}>
      <${Sidebar} page=${page} narrow=${narrow} />
      ${covered && html`<div class="backdrop" onClick=${() => page.set({ drawer: false })}></div>`}
      <${page.view ? Board : Chat} page=${page} narrow=${narrow} covered=${covered} />
      ${page.panel && page.conversation && html`<${Panel} page=${page} conversation=${page.conversation} />`}
    </div>
    <div class="visually-hidden" role="status" aria-live="polite">${page.announced}</div>
    <${Dialog} page=${page} />
  `;
}

function toMiddle(event) {
  event.preventDefault();
  document.querySelector(".composer textarea, .board h1")?.focus();
}
