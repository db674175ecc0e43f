// A timeline row in words and numbers.
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { lasting, money, short } from "./number_format.js";

const LABELS = { began: _("began"), took: _("took"), tokens: _("tokens"), cost: _("cost"), ended: _("ended") };

/** [name, text] of everything that is known about it. */
export function statsOf(line, begin, now) {
  const { span, from, to, end } = line;
  const since = from - begin;
  return [
    ["began", since < 0 ? _("{time} before the turn", { time: lasting(-since) }) : _("after {time}", { time: lasting(since) })],
    ["took", to === null ? _("{time} so far", { time: lasting(Math.max(0, now - from)) }) : lasting(to - from)],
    span?.usage && ["tokens", tokens(span.usage)],
    span?.cost !== null && span?.cost !== undefined && ["cost", money(span.cost)],
    end && ["ended", end],
  ].filter(Boolean);
}

export function tokens({ input_tokens = 0, output_tokens = 0, cached_tokens = 0 }) {
  const values = { read: short(input_tokens), written: short(output_tokens) };
  if (!cached_tokens) return _("{read} read, {written} written", values);
  return _("{read} read, {cached} of them from the cache, {written} written", { ...values, cached: short(cached_tokens) });
}

/** For screen readers, after its name. */
export function spoken(line, begin, now) {
  return statsOf(line, begin, now).map(([name, text]) => `${LABELS[name]} ${text}`).join(", ");
}

export function Sentence({ line, begin, now }) {
  return html`<strong>${line.name}</strong> ${statsOf(line, begin, now).map(([name, text]) => html`<span key=${name} class=${name}><small>${LABELS[name]}</small> ${text}</span>`)}`;
}

/** The timeline as a table. */
export function AsTable({ lines, begin, now }) {
  return html`<div class="table" tabindex="0" role="region" aria-label=${_("The timeline as a table")}><table>
    <thead><tr>${[_("what"), _("about"), ...Object.values(LABELS)].map((label) => html`<th key=${label} scope="col">${label}</th>`)}</tr></thead>
    <tbody>${lines.map((line) => html`<${Row} key=${line.key} line=${line} figures=${Object.fromEntries(statsOf(line, begin, now))} />`)}</tbody>
  </table></div>`;
}

function Row({ line, figures }) {
  return html`<tr>
    <th scope="row">${line.name}</th>
    <td>${line.about}</td>
    ${Object.keys(LABELS).map((name) => html`<td key=${name}>${figures[name] ?? ""}</td>`)}
  </tr>`;
}

/** Sentences about calls that were settled after a restart. */
export function settled({ attached, replayed, unknown }) {
  return [
    attached && _n("{n} call kept running and was reattached.", "{n} calls kept running and were reattached.", attached),
    replayed && _n("{n} call was run again.", "{n} calls were run again.", replayed),
    unknown && _n("The outcome of {n} call is unknown.", "The outcome of {n} calls is unknown.", unknown),
  ].filter(Boolean);
}
