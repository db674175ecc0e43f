// The composer: text, attachments, commands, and what a message does while a turn runs.
import { recall, recallText, remember, rememberText } from "../local_storage.js";
import { _ } from "../translation.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Attached, readFiles, useDropped } from "./attach.js";
import { completions, Commands } from "./commands.js";
import { Icon } from "./icons.js";
import { MODES, ModeMenu } from "./modes.js";

const COARSE = matchMedia("(hover: none) and (pointer: coarse)");

/** `hint`: who gets the message. `calm`: it does not take the focus. */
export function Composer({ page, running, onSend, onStop, draftKey, hint = "", calm = false }) {
  const [text, setText] = useState(recallText(`draft.${draftKey}`, ""));
  const [files, setFiles] = useState([]);
  const [problem, setProblem] = useState("");
  const [mode, setMode] = useState(recall("mode", "interrupt"));
  const [choice, setChoice] = useState(0);
  const field = useRef(null);
  const picker = useRef(null);

  // Before it is painted: later it would take the focus from something else.
  useLayoutEffect(() => {
    setText(recallText(`draft.${draftKey}`, ""));
    setFiles([]);
    if (!COARSE.matches && !calm) field.current.focus(); // on a phone the keyboard would cover the chat
  }, [draftKey]);
  useEffect(() => page.onCompose(({ text: given, attachments = [], added = false }) => {
    const draft = recallText(`draft.${draftKey}`, "");
    change(added && draft.trim() ? `${draft.trimEnd()}\n\n${given}` : given, field, setText, draftKey);
    if (attachments.length) setFiles((before) => [...before, ...attachments]);
  }), [draftKey]);
  useLayoutEffect(() => grow(field.current), [text]);

  const add = async (chosen) => {
    // A copy: the list of a file input is emptied while the files are read.
    const { files: read, problem: why } = await readFiles([...chosen], files);
    setFiles((before) => [...before, ...read]);
    setProblem(why);
  };
  const dropping = useDropped(add);
  const offered = completions(page.commands, text);
  const picked = Math.min(choice, offered.length - 1);

  const write = (value) => {
    setText(value);
    setChoice(0);
    rememberText(`draft.${draftKey}`, value);
  };
  const send = () => {
    if (!text.trim() && !files.length) return;
    onSend({ text: text.trim(), attachments: files, mode: running ? mode : null });
    write("");
    setFiles([]);
    setProblem("");
    field.current.focus();
  };
  const complete = (command) => {
    write(`/${command.name} `);
    field.current.focus();
  };
  const onKey = (event) => {
    if (event.isComposing) return;
    if (offered.length && steer(event, { offered, picked, setChoice, complete, text })) return;
    // The keyboard of a phone has no Shift+Enter; there the button sends.
    if (event.key === "Enter" && !event.shiftKey && !COARSE.matches) {
      event.preventDefault();
      send();
    }
  };
  const paste = (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    add(event.clipboardData.files);
  };
  const choose = (chosen) => {
    setMode(chosen);
    remember("mode", chosen);
    field.current.focus();
  };

  return html`<form class=${dropping ? "composer dropping" : "composer"} aria-label=${_("Write a message")}
      onSubmit=${(event) => { event.preventDefault(); send(); }}>
    <${Commands} offered=${offered} picked=${picked} onPick=${complete} />
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="box">
      <${Attached} files=${files} onRemove=${(gone) => setFiles(files.filter((file) => file !== gone))} />
      <textarea ref=${field} rows="1" dir="auto" value=${text} placeholder=${running ? placeholder(mode) : _("Write a message, or / for commands")}
        aria-label=${_("Message")} aria-controls=${offered.length ? "commands" : undefined}
        aria-activedescendant=${offered.length ? `command-${picked}` : undefined}
        onInput=${(event) => write(event.currentTarget.value)} onKeyDown=${onKey} onPaste=${paste}></textarea>
      <div class="row">
        <input ref=${picker} type="file" multiple hidden aria-hidden="true" tabindex="-1"
          onChange=${(event) => { add(event.currentTarget.files); event.currentTarget.value = ""; }} />
        <button type="button" class="round" title=${_("Attach files")} aria-label=${_("Attach files")} onClick=${() => picker.current.click()}>
          <${Icon} name="clip" />
        </button>
        <span class=${hint ? "hint hint-always" : "hint"}>${hint || _("Enter sends, Shift+Enter adds a line")}</span>
        <span class="gap"></span>
        ${running && html`<${ModeMenu} mode=${mode} onChoose=${choose} />`}
        ${running && html`<button type="button" class="stop" onClick=${onStop} title=${_("Stop (Esc)")}>
          <${Icon} name="stop" /> ${_("Stop")}
        </button>`}
        <button type="submit" class="send" disabled=${!text.trim() && !files.length}
          title=${running ? MODES[mode].help : _("Send (Enter)")} aria-label=${running ? _("Send: {mode}", { mode: MODES[mode].label }) : _("Send")}>
          <${Icon} name="send" />
        </button>
      </div>
    </div>
  </form>`;
}

/** Keys while completions are shown; true if the key was handled. */
function steer(event, { offered, picked, setChoice, complete, text }) {
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves) {
    event.preventDefault();
    setChoice((picked + moves[event.key] + offered.length) % offered.length);
    return true;
  }
  const whole = text === `/${offered[picked].name}`;
  if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !whole)) {
    event.preventDefault();
    complete(offered[picked]);
    return true;
  }
  return false;
}

function placeholder(mode) {
  return {
    interrupt: _("Write to interrupt the agent"),
    queue: _("Write what comes next"),
    steer: _("Write to steer the agent"),
  }[mode];
}

function change(text, field, setText, draftKey) {
  setText(text);
  rememberText(`draft.${draftKey}`, text);
  field.current.focus();
}

/** Sets the height to that of the text, up to the maximum of the style. */
function grow(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}
