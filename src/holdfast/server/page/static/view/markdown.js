// Markdown on the page. All text becomes text nodes: no HTML is parsed.
import { address as addresses } from "../api.js";
import { blocks, DEEPEST } from "../markdown.js";
import { safeAddress, spans, workspacePath } from "../spans.js";
import { _ } from "../translation.js";
import { createContext, h, html, useContext, useState } from "../vendor/preact-htm.module.js";
import { CodeBlock } from "./code.js";
import { memo } from "./memo.js";

/** The id of the session whose workspace relative addresses lead to; null: they lead nowhere. */
export const Workspace = createContext(null);

/** Blocks keep their index while a text grows, so only the last one is drawn again. */
export function Markdown({ text, depth = 0 }) {
  if (depth > DEEPEST) return html`<p>${text}</p>`;
  return blocks(text).map(
    (block, index) => html`<${Block} key=${index} block=${block} source=${block.source} depth=${depth} />`,
  );
}

class Block extends memo(DrawnBlock) {
  shouldComponentUpdate(next) {
    return next.source !== this.props.source || next.block.kind !== this.props.block.kind;
  }
}

/** The direction of a text is found for each outermost block; blocks within one have that of the outer. */
function DrawnBlock({ block, depth }) {
  const dir = depth === 0 ? "auto" : undefined;
  switch (block.kind) {
    case "heading":
      // Within a message headings start at level 3: the page uses the first two.
      return h(`h${Math.min(6, block.level + 2)}`, { dir }, inline(block.text));
    case "code":
      return html`<${CodeBlock} text=${block.text} language=${block.language} />`;
    case "rule":
      return html`<hr />`;
    case "quote":
      return html`<blockquote dir=${dir}><${Markdown} text=${block.text} depth=${depth + 1} /></blockquote>`;
    case "list":
      return html`<${List} list=${block} depth=${depth} dir=${dir} />`;
    case "table":
      return html`<${Table} table=${block} dir=${dir} />`;
    default:
      return html`<p dir=${dir}>${inline(block.text)}</p>`;
  }
}

function List({ list, depth, dir }) {
  const items = list.items.map((text) => html`<${Item} text=${text} loose=${list.loose} depth=${depth} />`);
  return list.ordered ? html`<ol start=${list.start} dir=${dir}>${items}</ol>` : html`<ul dir=${dir}>${items}</ul>`;
}

function Item({ text, loose, depth }) {
  const task = /^\[([ xX])\]\s+/.exec(text);
  const rest = task ? text.slice(task[0].length) : text;
  const inside = depth >= DEEPEST ? [{ kind: "paragraph", text: rest }] : blocks(rest);
  const drawn = inside.map((block) =>
    block.kind === "paragraph" && !loose
      ? html`<span class="line">${inline(block.text)}</span>`
      : html`<${DrawnBlock} block=${block} depth=${depth + 1} />`,
  );
  if (!task) return html`<li>${drawn}</li>`;
  const done = task[1] !== " ";
  return html`<li class="task">
    <span class="tick" role="img" aria-label=${done ? _("done") : _("to do")}>${done ? "☑" : "☐"}</span>${drawn}
  </li>`;
}

function Table({ table: { head, align, rows }, dir }) {
  const cell = (tag) => (text, index) => h(tag, { class: `to-${align[index] ?? "start"}` }, inline(text));
  return html`<div class="table" dir=${dir} tabindex="0" role="region" aria-label=${_("Table")}>
    <table>
      <thead><tr>${head.map(cell("th"))}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${row.map(cell("td"))}</tr>`)}</tbody>
    </table>
  </div>`;
}

function inline(text) {
  return spans(text).map(Span);
}

function Span(span) {
  if (typeof span === "string") return span;
  switch (span.kind) {
    case "break":
      return html`<br />`;
    case "code":
      return html`<code>${span.text}</code>`;
    case "strong":
      return html`<strong>${span.spans.map(Span)}</strong>`;
    case "emphasis":
      return html`<em>${span.spans.map(Span)}</em>`;
    case "strike":
      return html`<s>${span.spans.map(Span)}</s>`;
    case "image":
      return html`<${Picture} href=${span.href} text=${span.text || _("picture")} />`;
    default:
      return html`<${Link} href=${span.href} inside=${span.spans.map(Span)} />`;
  }
}

/** Only pictures of the workspace are shown: loading another would tell its server who reads this, and when. */
function Picture({ href, text }) {
  const { path, source } = useWorkspaceFile(href);
  const [missing, setMissing] = useState(false);
  if (missing) return html`<span title=${_("There is no picture {path} in the workspace", { path })}>🖼 ${text}</span>`;
  if (!path) return html`<${Link} href=${href} inside=${[`🖼 ${text}`]} />`;
  return html`<a class="workspace-picture" href=${source} download=${path.slice(path.lastIndexOf("/") + 1)} title=${path}>
    <img src=${source} alt=${text} loading="lazy" onError=${() => setMissing(true)} />
  </a>`;
}

function useWorkspaceFile(href) {
  const session = useContext(Workspace);
  const path = session && !safeAddress(href) ? workspacePath(href, session) : null;
  return { path, source: path && addresses.file(session, path) };
}

function Link({ href, inside }) {
  const address = safeAddress(href);
  const { path, source } = useWorkspaceFile(href);
  if (path) return html`<a href=${source} title=${path} download=${path.slice(path.lastIndexOf("/") + 1)}>${inside}</a>`;
  if (!address) return html`<span class="no-link" title=${_("Not a link: its address is not safe")}>${inside}</span>`;
  return html`<a href=${address} title=${address} target="_blank" rel="noopener noreferrer">${inside}</a>`;
}
