// A button that opens a menu.
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "./icons.js";

/** `items`: {label, help?, icon?, chosen?, danger?, act} or {label, href, download}. */
export function Menu({ label, icon, title, items, up = false }) {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  const button = useRef(null);
  useLayoutEffect(() => {
    if (!open) return undefined;
    (box.current.querySelector("[aria-checked=true]") ?? box.current.querySelector("[role^=menuitem]")).focus();
    const outside = (event) => box.current?.contains(event.target) || setOpen(false);
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const close = () => {
    setOpen(false);
    button.current.focus();
  };
  const onKey = (event) => {
    if (event.key === "Escape" && open) {
      event.stopPropagation();
      close();
    } else if (event.key === "Tab") setOpen(false);
    else move(event, box.current);
  };
  const choose = (item) => {
    close();
    item.act?.();
  };
  return html`<div class="menu" ref=${box} onKeyDown=${onKey}>
    <button ref=${button} type="button" class=${icon ? "round" : "quiet"} title=${title} aria-label=${label ? `${title}: ${label}` : title}
      aria-haspopup="menu" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>
      ${icon ? html`<${Icon} name=${icon} />` : html`${label} <${Icon} name="down" />`}
    </button>
    ${open && html`<div class=${up ? "sheet up" : "sheet"} role="menu" aria-label=${title}>
      ${items.map((item) => html`<${Choice} key=${item.label} item=${item} onChoose=${() => choose(item)} />`)}
    </div>`}
  </div>`;
}

function Choice({ item, onChoose }) {
  const inside = html`
    ${item.icon && html`<${Icon} name=${item.icon} />`}
    <span class="label">${item.label}${item.help && html`<small>${item.help}</small>`}</span>
    ${item.chosen && html`<${Icon} name="check" />`}
  `;
  if (item.href) {
    return html`<a role="menuitem" tabindex="-1" href=${item.href} download=${item.download} onClick=${onChoose}>${inside}</a>`;
  }
  const role = item.chosen === undefined ? "menuitem" : "menuitemradio";
  return html`<button type="button" role=${role} tabindex="-1" class=${item.danger ? "danger" : ""}
    aria-checked=${item.chosen === undefined ? undefined : String(item.chosen)} onClick=${onChoose}>${inside}</button>`;
}

function move(event, box) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const all = [...box.querySelectorAll("[role^=menuitem]")];
  const next = all.indexOf(document.activeElement) + by;
  all[(next + all.length) % all.length]?.focus();
}
