// What a list is narrowed by: a choice among few, or words that are typed.
import { html, useEffect, useRef } from "../vendor/preact-htm.module.js";

const SETTLES = 250; // milliseconds after the last letter

/** `choices`: {value: label}; the first is what is shown where nothing was chosen. */
export function Choice({ label, value, choices, onChoose }) {
  return html`<label class="filter">
    <span>${label}</span>
    <select value=${value} onChange=${(event) => onChoose(event.currentTarget.value)}>
      ${Object.entries(choices).map(([name, text]) => html`<option key=${name} value=${name} selected=${name === value}>${text}</option>`)}
    </select>
  </label>`;
}

/** Told when the hand rests; `value` from elsewhere (an address) replaces what was typed. */
export function Words({ label, value, placeholder = "", onWords }) {
  const field = useRef(null);
  const timer = useRef(0);
  useEffect(() => {
    if (field.current.value.trim() !== value) field.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const onInput = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onWords(field.current.value.trim()), SETTLES);
  };
  return html`<label class="filter words">
    <span>${label}</span>
    <input ref=${field} type="search" defaultValue=${value} placeholder=${placeholder} maxlength="200" autocomplete="off" spellcheck=${false} onInput=${onInput} />
  </label>`;
}
