// The choices of the restart dialog.
import { html } from "../vendor/preact-htm.module.js";

const CHOICES = [
  { mode: "", label: "Soon", help: "What runs comes to the end of its step, and goes on afterwards" },
  { mode: "when_idle", label: "When nothing runs", help: "It goes on until every turn is answered" },
  { mode: "now", label: "Now", help: "What runs is interrupted, and the gateway tries to resume it" },
];

export function Ways() {
  return html`<fieldset class="choices">
    <legend class="visually-hidden">When</legend>
    ${CHOICES.map(({ mode, label, help }, index) => html`<label key=${mode}>
      <input type="radio" name="mode" value=${mode} defaultChecked=${index === 0} autofocus=${index === 0} />
      <span class="label">${label}<small>${help}</small></span>
    </label>`)}
  </fieldset>`;
}
