// A new chat: suggestions for a first message.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Logo } from "./icons.js";

// What the demo model understands, which is English alone.
const DEMO = ["run uname -a", "edit a file", "start a background process", "long job"];
const OTHERS = [
  _("What can you do here?"),
  _("Look around in your workspace and tell me what is there."),
  _("Write a small Python script and run it."),
  _("Start a web server in the background."),
];

export function Welcome({ page }) {
  const demo = page.status?.model.provider === "demo";
  return html`<div class="welcome">
    <${Logo} />
    <h2>${_("What shall we do?")}</h2>
    <p>${demo
      ? _("A demo model answers until you set up a model with {command} in a terminal. It needs no key and uses the real tools:", { command: html`<code>holdfast setup</code>` })
      : _("What you send is saved and answered, even if this page is closed or the gateway restarts.")}</p>
    <ul>
      ${(demo ? DEMO : OTHERS).map((text) => html`<li key=${text}>
        <button type="button" onClick=${() => page.compose(text)}>${text}</button>
      </li>`)}
    </ul>
  </div>`;
}
