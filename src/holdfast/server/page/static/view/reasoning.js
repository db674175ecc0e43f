// The reasoning of a model, folded.
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { Icon, Spinner } from "./icons.js";
import { Markdown } from "./markdown.js";

export function Reasoned({ text, growing = false }) {
  const [open, setOpen] = useState(false);
  return html`<details class="reasoning" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>
      ${growing ? html`<${Spinner} />` : html`<${Icon} name="bulb" />`}
      <span>${growing ? _("Thinking…") : _("Thoughts")}</span>
      <span class="fold"><${Icon} name="right" /></span>
    </summary>
    ${open && html`<div class="prose"><${Markdown} text=${text} /></div>`}
  </details>`;
}
