// The output of a program as plain text, as a terminal would show it.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
const OVERWRITTEN = /[^\n]*\r(?!\n|$)/g; // a line that was overwritten after a carriage return, like a progress bar

/** Without escape sequences; of an overwritten line, only its last text. */
export function plain(text) {
  const words = text.replace(ESCAPES, "");
  return words.includes("\r") ? words.replace(OVERWRITTEN, "").replaceAll("\r", "") : words;
}
