// A timeline row in words and numbers.
import { html } from "../vendor/preact-htm.module.js";
import { lasting, many, money, short } from "./number_format.js";

/** [label, text] of everything that is known about it. */
export function statsOf(line, begin, now) {
  const { span, from, to, end } = line;
  const since = from - begin;
  return [
    ["began", since < 0 ? `${lasting(-since)} before the turn` : `${lasting(since)} in`],
    ["took", to === null ? `${lasting(Math.max(0, now - from))} so far` : lasting(to - from)],
    span?.usage && ["tokens", tokens(span.usage)],
    span?.cost !== null && span?.cost !== undefined && ["cost", money(span.cost)],
    end && ["ended", end],
  ].filter(Boolean);
}

export function tokens({ input_tokens = 0, output_tokens = 0, cached_tokens = 0 }) {
  const cached = cached_tokens ? `, ${short(cached_tokens)} of them from the cache` : "";
  return `${short(input_tokens)} read${cached}, ${short(output_tokens)} written`;
}

/** For screen readers, after its name. */
export function spoken(line, begin, now) {
  return statsOf(line, begin, now).map(([label, text]) => `${label} ${text}`).join(", ");
}

export function Sentence({ line, begin, now }) {
  return html`<strong>${line.name}</strong> ${statsOf(line, begin, now).map(([label, text]) => html`<span key=${label} class=${label}><small>${label}</small> ${text}</span>`)}`;
}

/** The timeline as a table. */
export function AsTable({ lines, begin, now }) {
  return html`<div class="table" tabindex="0" role="region" aria-label="The timeline as a table"><table>
    <thead><tr>${["what", "about", "began", "took", "tokens", "cost", "ended"].map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
    <tbody>${lines.map((line) => html`<${Row} key=${line.key} line=${line} figures=${Object.fromEntries(statsOf(line, begin, now))} />`)}</tbody>
  </table></div>`;
}

function Row({ line, figures }) {
  return html`<tr>
    <th scope="row">${line.name}</th>
    <td>${line.about}</td>
    ${["began", "took", "tokens", "cost", "ended"].map((name) => html`<td key=${name}>${figures[name] ?? ""}</td>`)}
  </tr>`;
}

/** The outcomes of calls that were settled after a restart. */
export function settled({ attached, replayed, unknown }) {
  return [
    attached && `${many(attached, "call")} had run on and ${attached === 1 ? "was" : "were"} attached to`,
    replayed && `${many(replayed, "call")} ${replayed === 1 ? "was" : "were"} run again`,
    unknown && `the outcome of ${many(unknown, "call")} is unknown`,
  ].filter(Boolean);
}
