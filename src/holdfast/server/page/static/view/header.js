// The head of a conversation: its title and its actions.
import { address } from "../api.js";
import { useObservable } from "../observable.js";
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";

export function ChatHeader({ page, narrow }) {
  useObservable(page.chats);
  const { conversation } = page;
  const known = page.chats.sessions.find(({ id }) => id === conversation?.id);
  const session = known ?? conversation?.session ?? null;
  return html`<header class="head">
    ${narrow && html`<${DrawerButton} page=${page} label=${_("Open the list of chats")} />`}
    <h1 dir="auto">${session ? session.title || _("New chat") : conversation ? "" : page.viewer ? _("Chats") : _("New chat")}</h1>
    ${session && html`<${Actions} page=${page} session=${session} narrow=${narrow} />`}
    <${Theme} page=${page} />
  </header>`;
}

export function DrawerButton({ page, label }) {
  useObservable(page.pending);
  const { number } = page.pending;
  const whole = number ? `${label}: ${_n("{n} approval is pending", "{n} approvals are pending", number)}` : label;
  return html`<button type="button" class="round drawer-button" aria-label=${whole} aria-expanded=${String(page.drawer)}
    onClick=${() => page.set({ drawer: true })}><${Icon} name="menu" />${number > 0 && html`<span class="dot waiting"></span>`}</button>`;
}

const PANELS = { files: ["files", _("Files")], processes: ["pulse", _("Processes")], memory: ["book", _("Memory")], people: ["people", _("People")] };

/** On a phone, the panels are in the menu: their buttons would leave no room for the title. */
function Actions({ page, session, narrow }) {
  const panels = Object.entries(PANELS);
  const opened = narrow ? panels.map(([name, [icon, label]]) => ({ label, icon, act: () => page.set({ panel: name }) })) : [];
  const exported = { label: _("Export"), icon: "download", href: address.export(session.id), download: `${session.id}.jsonl` };
  const items = page.viewer ? [...opened, exported] : [
    ...opened,
    { label: _("Rename"), icon: "pencil", act: () => page.set({ dialog: { kind: "rename", session } }) },
    exported,
    { label: _("Delete"), icon: "trash", danger: true, act: () => page.set({ dialog: { kind: "delete", session } }) },
  ];
  return html`
    ${!narrow && panels.map(([name, [icon, label]]) => html`<${PanelButton} key=${name} page=${page} name=${name} icon=${icon} label=${label} />`)}
    <${Menu} icon="more" title=${_("More")} items=${items} />
  `;
}

export function PanelButton({ page, name, icon, label }) {
  return html`<button type="button" class="round" title=${label} aria-label=${label}
    aria-pressed=${String(page.panel === name)} onClick=${() => page.set({ panel: page.panel === name ? null : name })}>
    <${Icon} name=${icon} />
  </button>`;
}

const NEXT = { auto: "light", light: "dark", dark: "auto" };
const ICONS = { auto: "auto", light: "sun", dark: "moon" };
const NAMES = { auto: _("same as the system"), light: _("light"), dark: _("dark") };

export function Theme({ page }) {
  const label = _("Theme: {theme}", { theme: NAMES[page.theme] });
  return html`<button type="button" class="round" title=${label} aria-label=${label} onClick=${() => page.setTheme(NEXT[page.theme])}>
    <${Icon} name=${ICONS[page.theme]} />
  </button>`;
}
