// What a message does to the turn that is running when it is sent.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Menu } from "./menu.js";

export const MODES = {
  interrupt: { label: _("Interrupt"), help: _("Stops the running turn and answers this instead") },
  steer: { label: _("Steer"), help: _("The agent reads it before its next step, and continues") },
  queue: { label: _("Queue"), help: _("Answers this when the running turn is done") },
};

export function ModeMenu({ mode, onChoose }) {
  const items = Object.entries(MODES).map(([name, { label, help }]) => ({
    label, help, chosen: name === mode, act: () => onChoose(name),
  }));
  return html`<${Menu} label=${MODES[mode].label} title=${_("What sending does to the running turn")} items=${items} up />`;
}
