// Modal dialogs.
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Ways } from "./restart.js";

export function Dialog({ page }) {
  const { dialog } = page;
  if (!dialog) return null;
  const View = { rename: Rename, delete: Delete, kill: Kill, forget: Forget, revoke: Revoke, restart: Restart, confirm: Confirm }[dialog.kind];
  return html`<${Modal} onClose=${() => page.set({ dialog: null })}><${View} page=${page} dialog=${dialog} /><//>`;
}

function Modal({ onClose, children }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  return html`<dialog ref=${box} aria-labelledby="question" onClose=${onClose}
    onClick=${(event) => event.target === box.current && onClose()}>${children}</dialog>`;
}

function Question({ title, act, verb, danger, page, children }) {
  const [problem, setProblem] = useState("");
  const [acting, setActing] = useState(false);
  const close = () => page.set({ dialog: null });
  const submit = async (event) => {
    event.preventDefault();
    setActing(true);
    try {
      await act(event.target);
      close();
    } catch (failure) {
      setProblem(failure.message);
      setActing(false);
    }
  };
  return html`<form onSubmit=${submit}>
    <h2 id="question">${title}</h2>
    ${children}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="buttons">
      <button type="button" class="quiet" onClick=${close}>Cancel</button>
      <button type="submit" class=${danger ? "primary danger" : "primary"} disabled=${acting}>${verb}</button>
    </div>
  </form>`;
}

function Rename({ page, dialog: { session } }) {
  const act = (form) => page.rename(session, form.elements.title.value.trim());
  return html`<${Question} page=${page} title="Rename this chat" verb="Rename" act=${act}>
    <input name="title" aria-label="Title" maxlength="200" value=${session.title} autofocus />
  <//>`;
}

function Delete({ page, dialog: { session } }) {
  return html`<${Question} page=${page} title="Delete this chat?" verb="Delete" danger act=${() => page.remove(session)}>
    <p><strong>${session.title || "New chat"}</strong></p>
    <p>Its messages, files and running processes are gone for good.</p>
  <//>`;
}

function Kill({ page, dialog: { process, act } }) {
  return html`<${Question} page=${page} title="End this process?" verb="End it" danger act=${act}>
    <pre tabindex="0"><code>${process.command}</code></pre>
  <//>`;
}

function Forget({ page, dialog: { note, act } }) {
  return html`<${Question} page=${page} title="Forget this note?" verb="Forget" danger act=${act}>
    <p>${note.text}</p>
  <//>`;
}

function Revoke({ page, dialog: { person, act } }) {
  return html`<${Question} page=${page} title="Send them away?" verb="Send away" danger act=${act}>
    <p>${person.user_name && html`<strong>${person.user_name}</strong> `}${person.principal}</p>
    <p>What they write is not answered any more; their conversations are kept.</p>
  <//>`;
}

/** `sentences`: what the user should know before confirming. `field`:
 * {label, value}, a text input for the action. */
function Confirm({ page, dialog: { title, verb, danger, sentences, act, field = null } }) {
  return html`<${Question} page=${page} title=${title} verb=${verb} danger=${danger} act=${act}>
    ${sentences.map((sentence) => html`<p key=${sentence}>${sentence}</p>`)}
    ${field && html`<input name="words" class="field" aria-label=${field.label} maxlength="200" value=${field.value} />`}
  <//>`;
}

function Restart({ page }) {
  return html`<${Question} page=${page} title="Restart the gateway?" verb="Restart" act=${(form) => page.restart(form.elements.mode.value)}>
    <p>Conversations go on where they were, and what is written meanwhile is answered.</p>
    <${Ways} />
  <//>`;
}
