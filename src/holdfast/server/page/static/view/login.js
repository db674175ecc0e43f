// The login form.
import { logIn } from "../api.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { CopyButton } from "./copy.js";
import { Logo } from "./icons.js";

export function Login() {
  return html`<main class="login">
    <${Logo} />
    <h1>Holdfast</h1>
    <p>This page opens with a one-time link. On the machine that runs the gateway, say:</p>
    <div class="command"><code>holdfast link</code><${CopyButton} text="holdfast link" /></div>
    <p class="quiet-text">Open the address that it prints in this browser. The browser is remembered from then on.</p>
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
      <input name="token" type="password" aria-label="A token" placeholder="Or a token" autocomplete="current-password" spellcheck=${false} />
      <button type="submit" class="quiet">Log in</button>
    </form>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}`;
}
