// A new chat: suggestions for a first message.
import { html } from "../vendor/preact-htm.module.js";
import { Logo } from "./icons.js";

const DEMO = ["run uname -a", "edit a file", "start a background process", "long job"];
const OTHERS = [
  "What can you do here?",
  "Look around in your workspace and tell me what there is.",
  "Write a small Python script and run it.",
  "Start a web server in the background.",
];

export function Welcome({ page }) {
  const demo = page.status?.model.provider === "demo";
  return html`<div class="welcome">
    <${Logo} />
    <h2>What shall we do?</h2>
    <p>${demo
      ? html`A demo answers until a model is set up, by <code>holdfast setup</code> in a terminal. It needs no key and uses the real tools:`
      : "What you send is kept and answered, whatever happens to this page or to the gateway."}</p>
    <ul>
      ${(demo ? DEMO : OTHERS).map((text) => html`<li key=${text}>
        <button type="button" onClick=${() => page.compose(text)}>${text}</button>
      </li>`)}
    </ul>
  </div>`;
}
