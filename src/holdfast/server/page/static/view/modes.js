// What a message does to the turn that is running when it is sent.
import { html } from "../vendor/preact-htm.module.js";
import { Menu } from "./menu.js";

export const MODES = {
  interrupt: { label: "Interrupt", help: "End what runs, and answer this instead" },
  steer: { label: "Steer", help: "Tell it before its next step; it goes on" },
  queue: { label: "Queue", help: "Answer this when what runs is done" },
};

export function ModeMenu({ mode, onChoose }) {
  const items = Object.entries(MODES).map(([name, { label, help }]) => ({
    label, help, chosen: name === mode, act: () => onChoose(name),
  }));
  return html`<${Menu} label=${MODES[mode].label} title="What sending does to the running turn" items=${items} up />`;
}
