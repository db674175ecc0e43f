// The login form.
import { logIn } from "../api.js";
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { CopyButton } from "./copy.js";
import { Logo } from "./icons.js";

export function Login() {
  return html`<main class="login">
    <${Logo} />
    <h1>Holdfast</h1>
    <p>${_("This page opens with a one-time link. On the machine that runs the gateway, run:")}</p>
    <div class="command"><code>holdfast link</code><${CopyButton} text="holdfast link" /></div>
    <p class="quiet-text">${_("Open the address that it prints in this browser. The browser then stays logged in.")}</p>
    <${Token} />
  </main>`;
}

/** For users with a token and without access to the machine. */
function Token() {
  const [problem, setProblem] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const token = event.target.elements.token.value.trim();
    if (!token) return;
    try {
      await logIn(token);
      location.reload();
    } catch (failure) {
      setProblem(failure.message);
    }
  };
  return html`<form class="note-field" onSubmit=${submit}>
      <input name="token" type="password" aria-label=${_("A token")} placeholder=${_("Or a token")} autocomplete="current-password" spellcheck=${false} />
      <button type="submit" class="quiet">${_("Log in")}</button>
    </form>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}`;
}
