// Single messages: of users, waiting ones, notes, answers of commands, and how a turn ended.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { address } from "../api.js";
import { splitAttachments } from "./attach.js";
import { Icon, Spinner } from "./icons.js";
import { Markdown } from "./markdown.js";
import { memo } from "./memo.js";
import { iso, moment, when } from "./times.js";

export const UserMessage = memo(function UserMessage({ record: { seq, at, message }, session }) {
  const { text, paths, missing } = splitAttachments(message.text ?? "");
  return html`<article class="user-message" data-seq=${seq} aria-label=${message.speaker ?? _("You")}>
    ${message.note && html`<${Note} text=${message.note} />`}
    <div class="bubble">
      ${message.speaker && html`<p class="speaker" dir="auto">${message.speaker}</p>`}
      ${message.quoted && html`<p class="quoted" dir="auto">${message.quoted.replace(/^> ?/gm, "")}</p>`}
      <${Pictures} pictures=${(message.images ?? []).map(sourceOf).filter(Boolean)} />
      ${text && html`<p class="message-text" dir="auto">${text}</p>`}
      <${Files} session=${session} paths=${paths} missing=${missing} />
    </div>
    <time datetime=${iso(at)} title=${moment(at)}>${when(at)}</time>
  </article>`;
});

function sourceOf({ media_type = "image/png", data }) {
  return data && media_type.startsWith("image/") ? `data:${media_type};base64,${data}` : null;
}

function Pictures({ pictures }) {
  if (!pictures.length) return null;
  return html`<div class="pictures">
    ${pictures.map((source) => html`<img src=${source} alt=${_("Attached picture")} loading="lazy" />`)}
  </div>`;
}

/** The attachments of a message: those in the workspace can be downloaded, the others are named with the reason. */
function Files({ session, paths, missing }) {
  if (!paths.length && !missing.length) return null;
  return html`<ul class="attached-files" aria-label=${_("Attached")}>
    ${paths.map((path) => {
      const name = path.slice(path.lastIndexOf("/") + 1);
      return html`<li key=${path} class="attached"><${Icon} name="file" /> <a href=${address.file(session, path)} download=${name} dir="auto">${name}</a></li>`;
    })}
    ${missing.map((note) => html`<li key=${note} class="attached"><${Icon} name="cross" /> <span dir="auto">${note}</span></li>`)}
  </ul>`;
}

/** A message that is not in the transcript yet. */
export function Waiting({ entry, session, busy, onRetry, onDrop }) {
  const { state, error, attachments = [] } = entry;
  const { text, paths, missing } = splitAttachments(entry.text);
  const refused = state === "refused";
  return html`<article class=${`user-message waiting ${state}`} aria-label=${_("You, being sent")}>
    <div class="bubble">
      <${Pictures} pictures=${attachments.map(sourceOf).filter(Boolean)} />
      ${attachments.filter((each) => !sourceOf(each)).map((each) => html`<p class="attached"><${Icon} name="file" /> ${each.name}</p>`)}
      ${text && html`<p class="message-text" dir="auto">${text}</p>`}
      <${Files} session=${session} paths=${paths} missing=${missing} />
    </div>
    <p class="send-state">
      ${refused
        ? html`<span class="error">${error}</span>
            <button type="button" class="link" onClick=${onRetry}>${_("Try again")}</button>
            <button type="button" class="link" onClick=${onDrop}>${_("Discard")}</button>`
        : html`<${Spinner} /> ${sendState(entry, busy)}`}
    </p>
  </article>`;
}

const KEPT_NOTICE = _("It is saved here until the gateway has it.");

function sendState({ state, why }, busy) {
  if (state === "unsent") return `${why ? _("Not accepted yet: {reason}.", { reason: why.replace(/\.$/, "") }) : _("Sending…")} ${KEPT_NOTICE}`;
  return busy ? _("Waiting for the running turn") : _("Accepted");
}

/** A system note to the model, folded. */
export function Note({ text, seq }) {
  const plain = text.replace(/^\[System note:\s*/, "").replace(/\](?=\n|$)/, "").trim();
  const short = plain.replace(/\.\s.*$/s, ".");
  if (short === plain) return html`<p class="note" dir="auto" data-seq=${seq}>${plain}</p>`;
  return html`<details class="note" dir="auto" data-seq=${seq}><summary>${short}</summary><p>${plain}</p></details>`;
}

/** A compaction: the model reads this summary instead of the messages above it. */
export function Compacted({ text, seq }) {
  return html`<details class="note" data-seq=${seq}>
    <summary>${_("The model sees a summary of the messages above.")}</summary><div class="prose"><${Markdown} text=${text} /></div>
  </details>`;
}

/** The answer of a command, or why a message failed: it is in no transcript. */
export function Answer({ answer: { text, command, state } }) {
  const failed = state === "failed" || state === "refused";
  if (state === "superseded") return html`<p class="turn-end stopped"><${Icon} name="dash" /> ${_("Not processed, because the turn was stopped: {command}", { command })}</p>`;
  return html`<article class=${failed ? "answer failed" : "answer"} aria-label=${command ? _("Answer to {command}", { command }) : _("Answer")}>
    ${command && html`<p class="command-text">${command}</p>`}
    <div class="prose"><${Markdown} text=${text} /></div>
  </article>`;
}

const ENDS = {
  failed: ["failed", _("This turn failed.")],
  superseded: ["stopped", _("Stopped.")],
  interrupted: ["stopped", _("Interrupted by the next message.")],
};

/** `onRetry`: answers the message again; null: that is not possible. */
export function TurnEnd({ state, reason, onRetry }) {
  const [tone, text] = ENDS[state] ?? [];
  if (!tone) return state === "answered" && reason ? html`<p class="remark">${reason}</p>` : null;
  const failed = tone === "failed";
  return html`<div class=${`turn-end ${tone}`}>
    <${Icon} name=${failed ? "cross" : "dash"} />
    <div class="prose">${text}${failed && reason && html`<${Markdown} text=${reason} />`}</div>
    ${onRetry && html`<button type="button" class="quiet outlined" data-changes onClick=${onRetry}><${Icon} name="again" /> ${_("Try again")}</button>`}
  </div>`;
}
