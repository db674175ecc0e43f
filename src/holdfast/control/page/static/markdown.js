// Markdown as data: text in, blocks and spans out. Nothing here makes HTML.
const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( {1,4})(?! )|\t|( )(?= {4,})|$)/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const BLANK = /^\s*$/;
const DEEPEST = 8; // quotes and lists within each other; deeper ones are shown as plain text

/**
 * The blocks of a text. Each has its `kind` and the `source` lines it came from; what is inside
 * a quote or an item is again a text, for whoever draws it to ask about.
 */
export function blocks(text) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const found = [];
  for (let at = 0; at < lines.length; ) {
    if (BLANK.test(lines[at])) {
      at += 1;
      continue;
    }
    const [block, next] = blockAt(lines, at);
    found.push({ ...block, source: lines.slice(at, next).join("\n") });
    at = next;
  }
  return found;
}

export const deepest = DEEPEST;

function blockAt(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return codeAt(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: heading[2] ?? "" }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (QUOTE.test(line)) return quoteAt(lines, at);
  if (ITEM.test(line)) return listAt(lines, at);
  if (isTable(lines, at)) return tableAt(lines, at);
  return paragraphAt(lines, at);
}

function codeAt(lines, at, [, indent, fence, info]) {
  const ends = (line) => {
    const mark = line.trim();
    return mark.length >= fence.length && mark === fence[0].repeat(mark.length);
  };
  let next = at + 1;
  while (next < lines.length && !ends(lines[next])) next += 1;
  const inside = lines.slice(at + 1, next);
  const text = inside.map((line) => unindent(line, indent.length)).join("\n");
  const language = info.trim().split(/\s+/)[0].toLowerCase();
  return [{ kind: "code", language, text }, Math.min(next + 1, lines.length)];
}

function unindent(line, by) {
  let at = 0;
  while (at < by && line[at] === " ") at += 1;
  return line.slice(at);
}

function quoteAt(lines, at) {
  let next = at;
  while (next < lines.length && QUOTE.test(lines[next])) next += 1;
  const text = lines.slice(at, next).map((line) => line.replace(QUOTE, "")).join("\n");
  return [{ kind: "quote", text }, next];
}

function listAt(lines, at) {
  const ordered = /\d/.test(ITEM.exec(lines[at])[2]);
  const first = Number.parseInt(ITEM.exec(lines[at])[2], 10);
  const items = [];
  let loose = false;
  let next = at;
  while (next < lines.length) {
    const mark = ITEM.exec(lines[next]);
    if (!mark || /\d/.test(mark[2]) !== ordered || RULE.test(lines[next])) break;
    const width = mark[0].length || mark[1].length + mark[2].length + 1;
    const [item, end, apart] = itemAt(lines, next, Math.max(width, mark[1].length + 2));
    items.push(item);
    loose ||= apart;
    next = end;
  }
  return [{ kind: "list", ordered, start: ordered ? first : 1, items, loose }, next];
}

/** An item runs on over lines that are indented to its text, and over those that merely go on. */
function itemAt(lines, at, width) {
  const text = [lines[at].slice(width)];
  let next = at + 1;
  let blank = false;
  let apart = false;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    if (BLANK.test(line)) {
      blank = true;
      text.push("");
      continue;
    }
    const indent = line.length - line.trimStart().length;
    if (indent >= Math.min(width, 2) && (indent >= width || !ITEM.test(line.slice(0)))) {
      apart ||= blank && !ITEM.test(line.trimStart());
      text.push(unindent(line, width));
    } else if (blank || ITEM.test(line) || startsBlock(lines, next)) {
      apart ||= blank && ITEM.test(line);
      break;
    } else {
      text.push(line);
    }
    blank = false;
  }
  return [text.join("\n").trimEnd(), next, apart];
}

function startsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
}

function isTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") &&
    DIVIDER.test(lines[at + 1]) && cells(lines[at]).length === cells(lines[at + 1]).length;
}

function tableAt(lines, at) {
  const head = cells(lines[at]);
  const align = cells(lines[at + 1]).map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return right ? (left ? "center" : "right") : "left";
  });
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|") && !BLANK.test(lines[next])) next += 1;
  const rows = lines.slice(at + 2, next).map((line) => {
    const row = cells(line);
    return head.map((_, place) => row[place] ?? "");
  });
  return [{ kind: "table", head, align, rows }, next];
}

/** Cells between bars; a bar after a backslash or within a code span is text. */
function cells(line) {
  const inside = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  const found = [""];
  let code = false;
  for (let at = 0; at < inside.length; at += 1) {
    const char = inside[at];
    if (char === "\\" && inside[at + 1] === "|") {
      found[found.length - 1] += "|";
      at += 1;
    } else if (char === "|" && !code) {
      found.push("");
    } else {
      if (char === "`") code = !code;
      found[found.length - 1] += char;
    }
  }
  return found.map((cell) => cell.trim());
}

function paragraphAt(lines, at) {
  let next = at + 1;
  while (next < lines.length && !BLANK.test(lines[next])) {
    if (startsBlock(lines, next) || isTable(lines, next)) break;
    const mark = ITEM.exec(lines[next]);
    if (mark && (!/\d/.test(mark[2]) || Number.parseInt(mark[2], 10) === 1)) break;
    next += 1;
  }
  const text = lines.slice(at, next).map((line) => line.trimStart()).join("\n");
  return [{ kind: "paragraph", text }, next];
}

// Spans. What begins one is found by this, and everything else is text.
const MARK = /[\\`*_~[!<\n]|https?:\/\//g;
const AUTO = /https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*_~|]/y;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
const BREAK = /<br\s*\/?>/iy;
const LONGEST = 40_000; // a paragraph beyond this is shown as it was written

/** The spans of a paragraph: strings, and {kind, …} with `spans` or `text` inside. */
export function spans(text, depth = 0) {
  if (text.length > LONGEST || depth > DEEPEST) return [text];
  const found = [];
  const missing = new Set(); // closing marks that were looked for in vain
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

/** The bracket that closes the one at `at`; none further than a link's text may be long. */
function closing(text, at) {
  let open = 0;
  for (let place = at; place < Math.min(text.length, at + 1000); place += 1) {
    if (text[place] === "\\") place += 1;
    else if (text[place] === "[") open += 1;
    else if (text[place] === "]" && --open === 0) return place;
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

const WAYS = new Set(["http:", "https:", "mailto:"]);

/** The address as the browser understands it, or null where following it could run anything. */
export function safeAddress(href) {
  try {
    const url = new URL(href);
    return WAYS.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
