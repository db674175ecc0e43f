// Parses the spans of a Markdown paragraph: emphasis, code, links. Nothing here makes HTML.
import { DEEPEST } from "./markdown.js";

// What begins a span; everything else is text.
const MARK = /[\\`*_~[!<\n]|https?:\/\//g;
const AUTO = /https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*_~|]/y;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
const BREAK = /<br\s*\/?>/iy;
const LONGEST = 40_000; // characters; a longer paragraph is shown as plain text

/** The spans of a paragraph: strings, and {kind, …} with `spans` or `text` inside. */
export function spans(text, depth = 0) {
  if (text.length > LONGEST || depth > DEEPEST) return [text];
  const found = [];
  const missing = new Set(); // closing marks that are known to be missing
  let plain = 0;
  for (let at = 0; at < text.length; ) {
    MARK.lastIndex = at;
    const mark = MARK.exec(text);
    if (!mark) break;
    at = mark.index;
    const span = spanAt(text, at, missing, depth);
    if (!span) {
      at += 1;
      continue;
    }
    if (at > plain) found.push(text.slice(plain, at));
    found.push(span.value);
    at = plain = span.end;
  }
  if (plain < text.length) found.push(text.slice(plain));
  return found;
}

function spanAt(text, at, missing, depth) {
  switch (text[at]) {
    case "\\":
      return escapeAt(text, at);
    case "\n":
      return { value: { kind: "break" }, end: at + 1 };
    case "`":
      return codeSpanAt(text, at, missing);
    case "!":
      return text[at + 1] === "[" ? linkAt(text, at + 1, missing, depth, "image") : null;
    case "[":
      return linkAt(text, at, missing, depth, "link");
    case "<":
      return angleAt(text, at);
    case "h":
      return autoAt(text, at);
    default:
      return emphasisAt(text, at, missing, depth);
  }
}

function escapeAt(text, at) {
  const next = text[at + 1];
  if (next === "\n") return { value: { kind: "break" }, end: at + 2 };
  return next && /[!-/:-@[-`{-~]/.test(next) ? { value: next, end: at + 2 } : null;
}

function codeSpanAt(text, at, missing) {
  const fence = /`+/y;
  fence.lastIndex = at;
  const ticks = fence.exec(text)[0];
  if (missing.has(ticks)) return { value: ticks, end: at + ticks.length };
  for (let from = at + ticks.length; ; ) {
    const end = text.indexOf(ticks, from);
    if (end < 0) {
      missing.add(ticks);
      return { value: ticks, end: at + ticks.length };
    }
    fence.lastIndex = end;
    const closing = fence.exec(text)[0];
    if (closing === ticks) {
      const inside = text.slice(at + ticks.length, end).replaceAll("\n", " ");
      const padded = /^ .*[^ ].* $/.test(inside);
      return { value: { kind: "code", text: padded ? inside.slice(1, -1) : inside }, end: end + ticks.length };
    }
    from = end + closing.length;
  }
}

function linkAt(text, at, missing, depth, kind) {
  if (missing.has("](")) return null;
  const middle = closing(text, at);
  if (middle < 0 || text[middle + 1] !== "(") {
    if (text.indexOf("](", at) < 0) missing.add("](");
    return null;
  }
  const target = /\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
  target.lastIndex = middle + 1;
  const found = target.exec(text);
  if (!found) return null;
  const inside = text.slice(at + 1, middle);
  return { value: { kind, href: found[1], spans: spans(inside, depth + 1), text: inside }, end: target.lastIndex };
}

/** The index of the bracket that closes the one at `at`, within the maximum length of a link's text. */
function closing(text, at) {
  let open = 0;
  for (let index = at; index < Math.min(text.length, at + 1000); index += 1) {
    if (text[index] === "\\") index += 1;
    else if (text[index] === "[") open += 1;
    else if (text[index] === "]" && --open === 0) return index;
  }
  return -1;
}

function angleAt(text, at) {
  BREAK.lastIndex = at;
  if (BREAK.exec(text)) return { value: { kind: "break" }, end: BREAK.lastIndex };
  ANGLE.lastIndex = at;
  const found = ANGLE.exec(text);
  return found && { value: { kind: "link", href: found[1], spans: [found[1]] }, end: ANGLE.lastIndex };
}

function autoAt(text, at) {
  if (at > 0 && /\w/.test(text[at - 1])) return null;
  AUTO.lastIndex = at;
  const found = AUTO.exec(text);
  return found && { value: { kind: "link", href: found[0], spans: [found[0]] }, end: AUTO.lastIndex };
}

const KINDS = { "**": "strong", __: "strong", "*": "emphasis", _: "emphasis", "~~": "strike" };

function emphasisAt(text, at, missing, depth) {
  const char = text[at];
  const double = char + char;
  const mark = text.startsWith(double, at) ? double : char;
  if (!(mark in KINDS)) return null;
  if (missing.has(mark)) return skip(mark, at);
  const before = text[at - 1] ?? " ";
  const after = text[at + mark.length] ?? " ";
  if (/\s/.test(after) || (char === "_" && /\w/.test(before))) return skip(mark, at);
  const end = closingMark(text, at + mark.length, mark, char);
  if (end < 0) {
    missing.add(mark);
    return skip(mark, at);
  }
  const inside = text.slice(at + mark.length, end);
  return { value: { kind: KINDS[mark], spans: spans(inside, depth + 1) }, end: end + mark.length };
}

const skip = (mark, at) => ({ value: mark, end: at + mark.length });

function closingMark(text, from, mark, char) {
  for (let end = text.indexOf(mark, from); end >= 0; end = text.indexOf(mark, end + 1)) {
    const before = text[end - 1];
    const after = text[end + mark.length] ?? " ";
    if (/\s/.test(before) || before === "\\" || end === from) continue;
    if (char === "_" && /\w/.test(after)) continue;
    if (mark.length === 1 && (after === char || before === char)) {
      if (after === char) end += 1;
      continue;
    }
    return mark.length === 2 && after === char ? end + 1 : end;
  }
  return -1;
}

/**
 * The path of a file in the workspace, if the address of a link or picture is one: a relative path, or a path
 * where an agent sees the workspace of its session; else null.
 */
export function workspacePath(href, session) {
  const own = `/${session}/`;
  let path = href.replace(/^(?:sandbox|file):(?:\/\/)?(?=\/)/i, "");
  if (path.startsWith("/workspace/")) path = path.slice("/workspace/".length);
  else if (path.startsWith("/") && path.includes(own)) path = path.slice(path.indexOf(own) + own.length);
  path = path.replace(/^(?:\.\/)+/, "");
  if (!path || /^[a-z][a-z0-9+.-]*:|^[/#?]|^www\.|(?:^|\/)\.\.(?:\/|$)/i.test(path)) return null;
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

const WAYS = new Set(["http:", "https:", "mailto:"]);

/** The normalised address, or null if its scheme is not safe. */
export function safeAddress(href) {
  try {
    const url = new URL(href);
    return WAYS.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
