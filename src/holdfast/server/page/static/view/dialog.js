// Modal dialogs.
import { _ } from "../translation.js";
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
      <button type="button" class="quiet" onClick=${close}>${_("Cancel")}</button>
      <button type="submit" class=${danger ? "primary danger" : "primary"} disabled=${acting}>${verb}</button>
    </div>
  </form>`;
}

function Rename({ page, dialog: { session } }) {
  const act = (form) => page.rename(session, form.elements.title.value.trim());
  return html`<${Question} page=${page} title=${_("Rename this chat")} verb=${_("Rename")} act=${act}>
    <input name="title" aria-label=${_("Title")} dir="auto" maxlength="200" value=${session.title} autofocus />
  <//>`;
}

function Delete({ page, dialog: { session } }) {
  return html`<${Question} page=${page} title=${_("Delete this chat?")} verb=${_("Delete")} danger act=${() => page.remove(session)}>
    <p dir="auto"><strong>${session.title || _("New chat")}</strong></p>
    <p>${_("This permanently deletes its messages and files, and ends its running processes.")}</p>
  <//>`;
}

function Kill({ page, dialog: { process, act } }) {
  return html`<${Question} page=${page} title=${_("End this process?")} verb=${_("End process")} danger act=${act}>
    <pre tabindex="0"><code>${process.command}</code></pre>
  <//>`;
}

function Forget({ page, dialog: { note, act } }) {
  return html`<${Question} page=${page} title=${_("Delete this note?")} verb=${_("Delete")} danger act=${act}>
    <p dir="auto">${note.text}</p>
  <//>`;
}

function Revoke({ page, dialog: { person, act } }) {
  return html`<${Question} page=${page} title=${_("Revoke access?")} verb=${_("Revoke access")} danger act=${act}>
    <p>${person.user_name && html`<strong>${person.user_name}</strong> `}${person.principal}</p>
    <p>${_("Their messages are no longer answered. Their conversations are kept.")}</p>
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
  return html`<${Question} page=${page} title=${_("Restart the gateway?")} verb=${_("Restart")} act=${(form) => page.restart(form.elements.mode.value)}>
    <p>${_("Conversations resume where they were, and messages that arrive meanwhile are answered.")}</p>
    <${Ways} />
  <//>`;
}
