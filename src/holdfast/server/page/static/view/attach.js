// Attachments: chosen, pasted or dropped, and shown before they are sent.
import { _ } from "../translation.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "./icons.js";
import { size } from "./times.js";

const MOST_BYTES = 20_000_000; // of one message; base64 adds a third to that

/** In the format of the API; `problem` names the files that were left out, and the reason. */
export async function readFiles(chosen, already) {
  let room = MOST_BYTES - already.reduce((sum, file) => sum + file.data.length * 0.75, 0);
  const files = [];
  const problems = [];
  for (const file of chosen) {
    if (file.size > room) {
      problems.push(_("{file} is too large: the attachments of a message can have {size} in total.", { file: file.name, size: size(MOST_BYTES) }));
      continue;
    }
    try {
      files.push(await read(file));
      room -= file.size;
    } catch {
      problems.push(_("{file} could not be read.", { file: file.name }));
    }
  }
  return { files, problem: problems.join(" ") };
}

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error);
    reader.onload = () => {
      const data = String(reader.result).slice(String(reader.result).indexOf(",") + 1);
      const name = (file.name || "pasted").slice(0, 200);
      resolve({ name, media_type: file.type || "application/octet-stream", data });
    };
    reader.readAsDataURL(file);
  });
}

const ATTACHED = /^\[Attached, (in the workspace: |and not here: )(.*)\]$/;

/**
 * The text of a message as its author wrote it, and its attachments: the paths of the stored ones, and notes
 * about the others. The gateway names them in lines of the text, for the agent.
 */
export function splitAttachments(text) {
  if (!text.includes("[Attached, ")) return { text, paths: [], missing: [] };
  const [lines, paths, missing] = [[], [], []];
  for (const line of text.split("\n")) {
    const found = ATTACHED.exec(line);
    if (!found) lines.push(line);
    else if (found[1].startsWith("in")) paths.push(...found[2].split(", "));
    else missing.push(found[2]);
  }
  return paths.length || missing.length ? { text: lines.join("\n").trim(), paths, missing } : { text, paths, missing };
}

/** True while files are dragged over the page; they may be dropped anywhere on it. */
export function useDropped(add) {
  const [hovering, setHovering] = useState(false);
  useEffect(() => {
    const carries = (event) => event.dataTransfer?.types.includes("Files");
    const over = (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      setHovering(true);
    };
    const leave = (event) => event.relatedTarget === null && setHovering(false);
    const drop = (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      setHovering(false);
      add(event.dataTransfer.files);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("dragleave", leave);
      document.removeEventListener("drop", drop);
    };
  }, [add]);
  return hovering;
}

export function Attached({ files, onRemove }) {
  if (!files.length) return null;
  return html`<ul class="attachments" aria-label=${_("Attached")}>
    ${files.map((file) => html`<li key=${file.name + file.data.length}>
      ${file.media_type.startsWith("image/")
        ? html`<img src=${`data:${file.media_type};base64,${file.data}`} alt="" />`
        : html`<${Icon} name="file" />`}
      <span class="filename">${file.name}</span>
      <span class="size">${size(file.data.length * 0.75)}</span>
      <button type="button" class="round small" aria-label=${_("Remove {file}", { file: file.name })} onClick=${() => onRemove(file)}>
        <${Icon} name="close" />
      </button>
    </li>`)}
  </ul>`;
}
