// Completion of slash commands.
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";

/**
 * The commands that match what is typed, none once an argument is typed. Commands whose name matches
 * come before those with a matching alias, because Tab takes the first: `/sta` is status, not help (start).
 */
export function completions(commands, text) {
  const typed = /^\/([a-z_]*)$/i.exec(text);
  if (!typed) return [];
  const begun = typed[1].toLowerCase();
  const named = commands.filter(({ name }) => name.startsWith(begun));
  const aliased = commands.filter(({ aliases }) => aliases.some((each) => each.startsWith(begun)));
  return [...new Set([...named, ...aliased])];
}

const SHOWN = 8; // as many as fit on a phone: a scrolling list cannot be used with the keyboard alone

export function Commands({ offered, picked, onPick }) {
  if (!offered.length) return null;
  const first = Math.max(0, Math.min(picked - SHOWN + 2, offered.length - SHOWN));
  const left = offered.length - first - SHOWN;
  return html`<ul class="commands" id="commands" role="listbox" aria-label=${_("Commands")}>
    ${offered.slice(first, first + SHOWN).map((command, index) => html`<li
      key=${command.name} id=${`command-${first + index}`} role="option"
      aria-selected=${first + index === picked ? "true" : "false"} class=${first + index === picked ? "picked" : ""}
      onMouseDown=${(event) => { event.preventDefault(); onPick(command); }}>
      <code>/${command.name}</code> <span>${command.help}</span>
    </li>`)}
    ${left > 0 && html`<li class="more" role="presentation">${_n("{n} more: keep typing, or press the down arrow", "{n} more: keep typing, or press the down arrow", left)}</li>`}
  </ul>`;
}
