// Completion of slash commands.
import { html } from "../vendor/preact-htm.module.js";

/**
 * The commands that what is typed may become, none once an argument is being written. Those whose own name begins so
 * come before those that only have an alias like it, because Tab takes the first: `/sta` is status, not help (start).
 */
export function completions(commands, text) {
  const typed = /^\/([a-z_]*)$/i.exec(text);
  if (!typed) return [];
  const begun = typed[1].toLowerCase();
  const named = commands.filter(({ name }) => name.startsWith(begun));
  const aliased = commands.filter(({ aliases }) => aliases.some((each) => each.startsWith(begun)));
  return [...new Set([...named, ...aliased])];
}

const SHOWN = 8; // no more than fit on a phone: a list that scrolls cannot be reached by keyboard alone

export function Commands({ offered, picked, onPick }) {
  if (!offered.length) return null;
  const first = Math.max(0, Math.min(picked - SHOWN + 2, offered.length - SHOWN));
  const left = offered.length - first - SHOWN;
  return html`<ul class="commands" id="commands" role="listbox" aria-label="Commands">
    ${offered.slice(first, first + SHOWN).map((command, place) => html`<li
      key=${command.name} id=${`command-${first + place}`} role="option"
      aria-selected=${first + place === picked ? "true" : "false"} class=${first + place === picked ? "picked" : ""}
      onMouseDown=${(event) => { event.preventDefault(); onPick(command); }}>
      <code>/${command.name}</code> <span>${command.help}</span>
    </li>`)}
    ${left > 0 && html`<li class="more" role="presentation">${left} more: type on, or go down</li>`}
  </ul>`;
}
