// What a terminal would show of what a program wrote, as plain text.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
const OVERWRITTEN = /[^\n]*\r(?!\n|$)/g; // a line that was begun anew, as a bar of progress is

/** Without colours and moves of the cursor; of a line that was written over, what was last. */
export function plain(text) {
  const words = text.replace(ESCAPES, "");
  return words.includes("\r") ? words.replace(OVERWRITTEN, "").replaceAll("\r", "") : words;
}
