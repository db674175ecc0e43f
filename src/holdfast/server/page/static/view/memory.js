// What is remembered: the notes of the gateway's owner, then those of whoever else has some.
import { api } from "../api.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "./use_fetched.js";
import { Icon } from "./icons.js";
import { iso, moment, when } from "./times.js";

const OWN = "person:owner"; // whoever has the token or the login of this page

export function Notes({ page, conversation }) {
  const { value, problem, look } = useFetched(conversation, notebooks, 0);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!value) return html`<p class="quiet-text">Loading…</p>`;
  return value.map((notebook) => html`<${Notebook} key=${notebook.owner} page=${page} notebook=${notebook} look=${look} />`);
}

/** The owner's own first, also where it is empty: there a first note can be written. */
async function notebooks() {
  const [own, all] = await Promise.all([api.memory({ owner: OWN }), api.memory({ limit: 200 })]);
  return [...own.notebooks, ...all.notebooks.filter(({ owner }) => owner !== OWN)];
}

function Notebook({ page, notebook, look }) {
  const { owner, off, used, max_chars, notes } = notebook;
  const [problem, setProblem] = useState("");
  /** True once it is so; else it is said why not. */
  const change = async (act) => {
    try {
      await act();
      setProblem("");
    } catch (failure) {
      setProblem(failure.message);
      return false;
    }
    await look();
    return true;
  };
  const keep = (text, id) => change(() => api.saveNote({ owner, text, ...(id && { id }) }));
  return html`<section class="notebook" aria-label=${`Notes of ${owner}`}>
    <header>
      <h2>${owner === OWN ? "About you" : owner.replace(/^\w+:/, "")}</h2>
      <button type="button" class="link" data-changes aria-pressed=${String(off)} onClick=${() => change(() => api.switchMemory(owner, !off))}>${off ? "Turn on" : "Turn off"}</button>
    </header>
    ${off && html`<p class="quiet-text">Memory is off: new chats begin without these, and nothing is added.</p>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <ul class="notes">
      ${notes.map((note) => html`<${Note} key=${note.id} page=${page} note=${note} onKeep=${(text) => keep(text, note.id)}
        onForget=${() => api.deleteNote(owner, note.id).then(look)} />`)}
    </ul>
    ${!off && html`<${Field} label="New note" verb="Add" onSay=${keep} />`}
    <p class="facts"><span>${used} of ${max_chars} characters</span></p>
  </section>`;
}

function Note({ page, note, onKeep, onForget }) {
  const [editing, setEditing] = useState(false);
  const say = async (text) => {
    const kept = await onKeep(text);
    if (kept) setEditing(false);
    return kept;
  };
  if (editing) return html`<li><${Field} label=${`Note ${note.id}`} verb="Save" text=${note.text} onSay=${say} onLeave=${() => setEditing(false)} /></li>`;
  return html`<li>
    <p>${note.text}</p>
    <p class="facts">
      <span>${note.id} · ${note.topic}</span>
      <time datetime=${iso(note.changed_at)} title=${moment(note.changed_at)}>${when(note.changed_at)}</time>
      <button type="button" class="round" data-changes aria-label=${`Edit note ${note.id}`} onClick=${() => setEditing(true)}><${Icon} name="pencil" /></button>
      <button type="button" class="round" data-changes aria-label=${`Forget note ${note.id}`}
        onClick=${() => page.set({ dialog: { kind: "forget", note, act: onForget } })}><${Icon} name="trash" /></button>
    </p>
  </li>`;
}

function Field({ label, verb, text = "", onSay, onLeave }) {
  const submit = async (event) => {
    event.preventDefault();
    const field = event.target.elements.text;
    const said = field.value.trim();
    if (!said) return;
    // At once, so that what is written meanwhile is not taken away.
    if (!onLeave) field.value = "";
    if (!(await onSay(said)) && !field.value) field.value = said;
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
