// The question how the gateway is to restart.
import { html } from "../vendor/preact-htm.module.js";

const WAYS = [
  { mode: "", label: "Soon", help: "What runs comes to the end of its step, and goes on afterwards" },
  { mode: "when_idle", label: "When nothing runs", help: "It goes on until every turn is answered" },
  { mode: "now", label: "Now", help: "What runs is interrupted, and the gateway tries to resume it" },
];

export function Ways() {
  return html`<fieldset class="ways">
    <legend class="offstage">When</legend>
    ${WAYS.map(({ mode, label, help }, place) => html`<label key=${mode}>
      <input type="radio" name="mode" value=${mode} defaultChecked=${place === 0} autofocus=${place === 0} />
      <span class="label">${label}<small>${help}</small></span>
    </label>`)}
  </fieldset>`;
}
