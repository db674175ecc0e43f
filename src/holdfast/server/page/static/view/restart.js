// The choices of the restart dialog.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";

const CHOICES = [
  { mode: "", label: _("Soon"), help: _("Running turns finish their step, and continue afterwards") },
  { mode: "when_idle", label: _("When no turn runs"), help: _("Waits until every turn is answered") },
  { mode: "now", label: _("Now"), help: _("Running turns are interrupted, and resumed afterwards if possible") },
];

export function Ways() {
  return html`<fieldset class="choices">
    <legend class="visually-hidden">${_("When")}</legend>
    ${CHOICES.map(({ mode, label, help }, index) => html`<label key=${mode}>
      <input type="radio" name="mode" value=${mode} defaultChecked=${index === 0} autofocus=${index === 0} />
      <span class="label">${label}<small>${help}</small></span>
    </label>`)}
  </fieldset>`;
}
