// Completion of slash commands.
import { html } from "../vendor/preact-htm.module.js";

/** The commands that what is typed may become; none once an argument is being written. */
export function completions(commands, text) {
  const typed = /^\/([a-z_]*)$/i.exec(text);
  if (!typed) return [];
  const begun = typed[1].toLowerCase();
  return commands.filter(({ name, aliases }) => [name, ...aliases].some((each) => each.startsWith(begun)));
}

export function Commands({ offered, picked, onPick }) {
  if (!offered.length) return null;
  return html`<ul class="commands" id="commands" role="listbox" aria-label="Commands">
    ${offered.map((command, place) => html`<li
      key=${command.name} id=${`command-${place}`} role="option" aria-selected=${place === picked ? "true" : "false"}
      class=${place === picked ? "picked" : ""} onMouseDown=${(event) => { event.preventDefault(); onPick(command); }}>
      <code>/${command.name}</code> <span>${command.help}</span>
    </li>`)}
  </ul>`;
}
