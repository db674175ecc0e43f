// A chunk of rows of the waterfall: chunks without a change are not drawn again.
import { html } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { memo } from "../view/memo.js";
import { between } from "./axis.js";
import { lasting } from "./number_format.js";
import { Details } from "./span_details.js";
import { spoken } from "./span_text.js";

const INSTANTS = ["steer", "note"];

/** `opened` and `stop`: the keys of rows of this chunk, or null. */
export const LineRows = memo(function LineRows({ chunk, lines, axis, now, begin, session, opened, stop }) {
  return chunk.map((line) => html`<li key=${line.key} class=${`span-row ${line.tone}`}>
    <button type="button" data-key=${line.key} tabindex=${line.key === stop ? 0 : -1} aria-expanded=${String(line.key === opened)}>
      <span class="what"><${Icon} name=${line.icon} /><span class="name">${line.name}</span> <span class="short">${line.about}</span></span>
      <span class="track"><i class=${line.to === null ? "bar growing" : "bar"} style=${between(axis, line.from, line.to ?? now)}></i></span>
      <span class="duration">${took(line, now)}</span>
      <span class="visually-hidden">: ${spoken(line, begin, now)}</span>
    </button>
    ${line.key === opened && html`<${Details} line=${line} lines=${lines} session=${session} />`}
  </li>`);
});

function took({ from, to, kind }, now) {
  return INSTANTS.includes(kind) ? "" : lasting(Math.max(0, (to ?? now) - from));
}
