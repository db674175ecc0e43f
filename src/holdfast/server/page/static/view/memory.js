// Memory: the notes of the gateway's owner, then those of other people.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "./use_fetched.js";
import { Icon } from "./icons.js";
import { count, iso, moment, when } from "./times.js";

const OWN = "person:owner"; // the owner of the token or the login of this page

export function Notes({ page, conversation }) {
  const { value, problem, refresh } = useFetched(conversation, notebooks, 0);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!value) return html`<p class="quiet-text">${_("Loading…")}</p>`;
  return value.map((notebook) => html`<${Notebook} key=${notebook.owner} page=${page} notebook=${notebook} refresh=${refresh} />`);
}

/** The owner's notebook first, also if it is empty, so that a first note can be written. */
async function notebooks() {
  const [own, all] = await Promise.all([api.memory({ owner: OWN }), api.memory({ limit: 200 })]);
  return [...own.notebooks, ...all.notebooks.filter(({ owner }) => owner !== OWN)];
}

function Notebook({ page, notebook, refresh }) {
  const { owner, off, used, max_chars, notes } = notebook;
  const [problem, setProblem] = useState("");
  /** True on success; else the problem is shown. */
  const change = async (act) => {
    try {
      await act();
      setProblem("");
    } catch (failure) {
      setProblem(failure.message);
      return false;
    }
    await refresh();
    return true;
  };
  const keep = (text, id) => change(() => api.saveNote({ owner, text, ...(id && { id }) }));
  return html`<section class="notebook" aria-label=${_("Notes about {owner}", { owner })}>
    <header>
      <h2>${owner === OWN ? _("About you") : owner.replace(/^\w+:/, "")}</h2>
      <button type="button" class="link" data-changes aria-pressed=${String(off)} onClick=${() => change(() => api.switchMemory(owner, !off))}>${off ? _("Turn on") : _("Turn off")}</button>
    </header>
    ${off && html`<p class="quiet-text">${_("Memory is off: new chats start without these notes, and no note is added.")}</p>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <ul class="notes">
      ${notes.map((note) => html`<${Note} key=${note.id} page=${page} note=${note} onSave=${(text) => keep(text, note.id)}
        onForget=${() => api.deleteNote(owner, note.id).then(refresh)} />`)}
    </ul>
    ${!off && html`<${Field} label=${_("New note")} verb=${_("Add")} onSubmit=${keep} />`}
    <p class="facts"><span>${_("{used} of {limit} characters", { used: count(used), limit: count(max_chars) })}</span></p>
  </section>`;
}

function Note({ page, note, onSave, onForget }) {
  const [editing, setEditing] = useState(false);
  const save = async (text) => {
    const saved = await onSave(text);
    if (saved) setEditing(false);
    return saved;
  };
  if (editing) return html`<li><${Field} label=${_("Note {id}", { id: note.id })} verb=${_("Save")} text=${note.text} onSubmit=${save} onLeave=${() => setEditing(false)} /></li>`;
  return html`<li>
    <p dir="auto">${note.text}</p>
    <p class="facts">
      <span>${note.id} · ${note.topic}</span>
      <time datetime=${iso(note.changed_at)} title=${moment(note.changed_at)}>${when(note.changed_at)}</time>
      <button type="button" class="round" data-changes aria-label=${_("Edit note {id}", { id: note.id })} onClick=${() => setEditing(true)}><${Icon} name="pencil" /></button>
      <button type="button" class="round" data-changes aria-label=${_("Delete note {id}", { id: note.id })}
        onClick=${() => page.set({ dialog: { kind: "forget", note, act: onForget } })}><${Icon} name="trash" /></button>
    </p>
  </li>`;
}

function Field({ label, verb, text = "", onSubmit, onLeave }) {
  const submit = async (event) => {
    event.preventDefault();
    const field = event.target.elements.text;
    const written = field.value.trim();
    if (!written) return;
    // Cleared at once, so that what is typed during the request is kept.
    if (!onLeave) field.value = "";
    if (!(await onSubmit(written)) && !field.value) field.value = written;
  };
  const onKey = (event) => {
    if (event.key !== "Escape" || !onLeave) return;
    event.stopPropagation();
    onLeave();
  };
  return html`<form class="note-field" data-changes onSubmit=${submit} onKeyDown=${onKey}>
    <input name="text" aria-label=${label} placeholder=${label} maxlength="1000" autocomplete="off" value=${text} />
    <button type="submit" class="quiet">${verb}</button>
  </form>`;
}
