// The filters of a list: a choice among few, or typed text.
import { html, useEffect, useRef } from "../vendor/preact-htm.module.js";

const TYPING_PAUSE = 250; // milliseconds after the last letter

/** `choices`: {value: label}; the first is the default. */
export function Choice({ label, value, choices, onChoose }) {
  return html`<label class="filter">
    <span>${label}</span>
    <select value=${value} onChange=${(event) => onChoose(event.currentTarget.value)}>
      ${Object.entries(choices).map(([name, text]) => html`<option key=${name} value=${name} selected=${name === value}>${text}</option>`)}
    </select>
  </label>`;
}

/** `onText` is called when typing pauses; a new `value` (from the address) replaces what was typed. */
export function TextFilter({ label, value, placeholder = "", onText }) {
  const field = useRef(null);
  const timer = useRef(0);
  useEffect(() => {
    if (field.current.value.trim() !== value) field.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const onInput = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onText(field.current.value.trim()), TYPING_PAUSE);
  };
  return html`<label class="filter words">
    <span>${label}</span>
    <input ref=${field} type="search" defaultValue=${value} placeholder=${placeholder} maxlength="200" autocomplete="off" spellcheck=${false} onInput=${onInput} />
  </label>`;
}
