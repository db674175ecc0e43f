// A button that copies a text to the clipboard and confirms it.
import { _ } from "../translation.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "./icons.js";

export function CopyButton({ text, label = _("Copy") }) {
  const [done, setDone] = useState(null); // whether the last copy succeeded, for a moment
  useEffect(() => {
    if (done === null) return undefined;
    const timer = setTimeout(() => setDone(null), 1800);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => setDone(await toClipboard(text));
  return html`<button type="button" class="quiet copy" onClick=${copy}>
    <${Icon} name=${done ? "check" : "copy"} />
    <span aria-live="polite">${done === null ? label : done ? _("Copied") : _("Could not copy")}</span>
  </button>`;
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return byHand(text);
  }
}

/** Pages over plain HTTP from another machine have no clipboard API. */
function byHand(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  try {
    return document.execCommand("copy");
  } finally {
    field.remove();
  }
}
