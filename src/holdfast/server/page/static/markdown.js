// Parses the blocks of a Markdown text: paragraphs, lists, tables, code. Nothing here makes HTML.
const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( {1,4})(?! )|\t|( )(?= {4,})|$)/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const BLANK = /^\s*$/;
export const DEEPEST = 8; // quotes and lists within each other; deeper ones are shown as plain text

/**
 * The blocks of a text. Each has its `kind` and its `source` lines; the content of
 * a quote or an item is a text, which is parsed when it is drawn.
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

/** An item continues over lines that are indented to its text, and over lazy continuation lines. */
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
    return right ? (left ? "center" : "right") : left ? "left" : "start";
  });
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|") && !BLANK.test(lines[next])) next += 1;
  const rows = lines.slice(at + 2, next).map((line) => {
    const row = cells(line);
    return head.map((_, index) => row[index] ?? "");
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
