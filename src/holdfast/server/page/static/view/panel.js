// The side panel of a session: files, processes, memory and people.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Files } from "./files.js";
import { Icon } from "./icons.js";
import { Notes } from "./memory.js";
import { People } from "./pairing.js";
import { Processes } from "./processes.js";

const VIEWS = {
  files: [_("Files"), Files],
  processes: [_("Processes"), Processes],
  memory: [_("Memory"), Notes],
  people: [_("People"), People],
};

export function Panel({ page, conversation }) {
  const [, View] = VIEWS[page.panel];
  return html`<aside class="panel" aria-label=${VIEWS[page.panel][0]}>
    <header>
      <div class="tabs">
        ${Object.entries(VIEWS).map(([name, [label]]) => html`<button key=${name} type="button" aria-pressed=${String(name === page.panel)}
          onClick=${() => page.set({ panel: name })}>${label}</button>`)}
      </div>
      <button type="button" class="round" aria-label=${_("Close the panel")} onClick=${() => page.set({ panel: null })}><${Icon} name="close" /></button>
    </header>
    <div class="content"><${View} key=${conversation.id} page=${page} conversation=${conversation} /></div>
  </aside>`;
}
