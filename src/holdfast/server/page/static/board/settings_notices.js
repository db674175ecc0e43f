// Notices about the configuration: an invalid file, and keys that wait for a restart.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { withCode } from "./problems.js";

export function Notices({ page, config: { problem, pending_restart, warnings } }) {
  if (!problem && !pending_restart.length && !warnings.length) return null;
  return html`<ul class="problem-list" aria-label=${_("Notices about the configuration")}>
    ${problem && html`<li class="problem"><${Icon} name="shield" /><div role="alert">
      <p>${_("The file is invalid. The previous configuration stays active and is shown here.")}</p>
      <pre class="config-problem">${problem}</pre>
    </div></li>`}
    ${pending_restart.length > 0 && html`<li><${Icon} name="again" /><div>
      <p>${_("Waiting for a restart:")} ${pending_restart.map((key, at) => html`${at > 0 && ", "}<code key=${key}>${key}</code>`)}</p>
      <p class="actions" data-changes><button type="button" class="quiet outlined" onClick=${() => page.set({ dialog: { kind: "restart" } })}>${_("Restart the gateway…")}</button></p>
    </div></li>`}
    ${warnings.map((warning) => html`<li key=${warning}><${Icon} name="bulb" /><div><p>${withCode(warning)}</p></div></li>`)}
  </ul>`;
}
