// The status line: the model and why it is used, whether tools are sandboxed, and the connection.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Icon } from "./icons.js";

export function Footer({ page }) {
  const { status, connected } = page;
  const going = !connected || status?.state !== "running";
  return html`<footer class="status" aria-label=${_("Status")}>
    <span class=${connected ? "link-state on" : "link-state off"}><span class="dot"></span>${connected ? _("Connected") : _("Reconnecting…")}</span>
    ${status && html`
      <span class="model" title=${status.model.why}>${modelName(status.model)} <span class="why">${status.model.why}</span></span>
      ${status.sandboxed === false && html`<span class="warn" title=${status.sandbox_remedy || status.why_unsandboxed}>
        <${Icon} name="shield" /> ${status.sandbox_remedy ? _("No sandbox: no terminal, no files") : _("Not sandboxed")} <span class="why">${status.why_unsandboxed}</span>
      </span>`}
      ${!going && html`<button type="button" class="link" data-changes onClick=${() => page.set({ dialog: { kind: "restart" } })}>${_("Restart…")}</button>`}
      ${page.viewer && html`<span title=${_("You are a viewer: you can see everything here and change nothing.")}>${_("Viewer: read-only")}</span>`}
      <span class="version">${_("Holdfast {version}", { version: status.version })}</span>
    `}
  </footer>`;
}

const modelName = ({ provider, name }) => (name && name !== provider ? `${provider} · ${name}` : provider);
