// A block of code: its language, its colours, and a button to copy it.
import { highlight } from "../highlight.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { CopyButton } from "./copy.js";
import { memo } from "./memo.js";

export function CodeBlock({ text, language }) {
  return html`<figure class="code" dir="ltr">
    <figcaption><span>${language || _("text")}</span><${CopyButton} text=${text} /></figcaption>
    <pre tabindex="0"><${Code} text=${text} language=${language} /></pre>
  </figure>`;
}

export const Code = memo(function Code({ text, language }) {
  const pieces = highlight(text, language);
  return html`<code>${pieces.map(([kind, piece]) => (kind ? html`<span class=${`t-${kind}`}>${piece}</span>` : piece))}</code>`;
});
