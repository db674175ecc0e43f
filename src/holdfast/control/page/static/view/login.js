// What somebody sees whom the gateway does not know yet.
import { html } from "../vendor/preact-htm.module.js";
import { CopyButton } from "./copy.js";
import { Logo } from "./icons.js";

export function Login() {
  return html`<main class="login">
    <${Logo} />
    <h1>Holdfast</h1>
    <p>This page opens with a one-time link. On the machine that runs the gateway, say:</p>
    <div class="command"><code>holdfast link</code><${CopyButton} text="holdfast link" /></div>
    <p class="quiet-text">Open the address that it prints in this browser. The browser is remembered from then on.</p>
  </main>`;
}
