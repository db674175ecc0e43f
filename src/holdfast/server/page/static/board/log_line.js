// The details of a log line: its fields, its exception, and links.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { CopyButton } from "../view/copy.js";
import { Icon } from "../view/icons.js";
import { moment } from "../view/times.js";
import { addressOf } from "./url_query.js";
import { SessionLink } from "./session_link.js";
import { TurnLink } from "./turn_link.js";

const SESSION = ["session", "session_id"];
const TURN = ["turn", "turn_id"];

export function Line({ line, onClose }) {
  const { time, level, logger, message, exception, fields } = line;
  const session = SESSION.map((name) => fields[name]).find(Boolean);
  const turn = TURN.map((name) => fields[name]).find(Boolean);
  const others = Object.entries(fields).filter(([name]) => ![...SESSION, ...TURN].includes(name));
  return html`<section class="card log-detail" aria-label=${_("The selected line")}>
    <header class="between">
      <p><strong class=${level}>${level}</strong> ${moment(Date.parse(time) / 1000)} <code>${logger}</code></p>
      <p class="inline-links">
        <${CopyButton} text=${JSON.stringify(line, null, 2)} label=${_("Copy the line")} />
        <button type="button" class="round small" aria-label=${_("Close")} onClick=${onClose}><${Icon} name="close" /></button>
      </p>
    </header>
    <p class="full-text">${message}</p>
    ${(session || turn) && html`<p class="inline-links">
      ${session && html`<span>${_("session {session}", { session: html`<${SessionLink} id=${session} />` })}</span> <a href=${addressOf("logs", { level: "debug", session })}>${_("Lines of this session")}</a>`}
      ${turn && html`<span>${_("turn {turn}", { turn: html`<${TurnLink} id=${turn} />` })}</span>`}
    </p>`}
    ${others.length > 0 && html`<dl class="about">${others.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${shown(value)}</dd></div>`)}</dl>`}
    ${exception && html`<pre class="trace" tabindex="0"><code>${exception}</code></pre>`}
  </section>`;
}

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
