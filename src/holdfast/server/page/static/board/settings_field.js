// The form field of a key, by the kind of its value, and the value that was entered.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";

const LONG = 60; // characters from which a text field has several lines

export function Field({ it, name, invalid }) {
  const { kind, value, choices } = it;
  const common = {
    name: "value",
    "aria-label": name,
    "aria-describedby": `help-${it.key}${invalid ? ` problem-${it.key}` : ""}`,
    "aria-invalid": invalid || undefined,
  };
  if (kind === "boolean" || kind === "choice") {
    const names = kind === "boolean" ? ["true", "false"] : choices;
    return html`<select ...${common}>${value === null && html`<option value="" selected>${_("unset")}</option>`}${options(names, String(value))}</select>`;
  }
  if (kind === "integer" || kind === "number") {
    return html`<input ...${common} type="number" step=${kind === "integer" ? 1 : "any"} required defaultValue=${value ?? ""} />`;
  }
  if (kind === "list") return html`<textarea ...${common} rows=${Math.min(8, value.length + 1)} placeholder=${_("one per line")} spellcheck=${false} defaultValue=${value.join("\n")}></textarea>`;
  if (kind === "text" && (value ?? "").length + (value ?? "").split("\n").length > LONG) return long(common, value);
  if (it.key === "agent.instructions") return long(common, value ?? "");
  return html`<input ...${common} type="text" autocomplete="off" spellcheck=${false} defaultValue=${value ?? ""} placeholder=${kind === "secret" ? "env:NAME" : ""} />`;
}

const long = (common, value) => html`<textarea ...${common} rows="5" defaultValue=${value}></textarea>`;

const options = (names, chosen) => names.map((name) => html`<option key=${name} value=${name} selected=${name === chosen}>${name}</option>`);

/** The value for the gateway, which validates it; null: none was chosen. */
export function readField({ kind }, form) {
  const { value } = form.elements.value;
  return value === "" && (kind === "boolean" || kind === "choice") ? null : readValue(kind, value);
}

export function readValue(kind, value) {
  if (kind === "boolean") return value === "true";
  if (kind === "integer" || kind === "number") return Number(value);
  if (kind === "list") return value.split("\n").map((line) => line.trim()).filter(Boolean);
  return value;
}
