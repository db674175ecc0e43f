// Syntax highlighting: a small tokeniser for families of languages, sometimes wrong but never unsafe.
const words = (text) => new Set(text.split(" "));

const C_LIKE = "break case catch class const continue default delete do else enum extends false finally for if import in instanceof interface new null private protected public return static super switch this throw true try typeof var void while with";
const SCRIPT = `${C_LIKE} async await export from function get let of set undefined yield as type implements declare namespace readonly abstract keyof satisfies`;

const END = "(?![^])"; // of the text; $ is the end of a line
const SLASHES = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|${END})`;
const HASH = String.raw`(?<![\w$&])#[^\n]*`;
const DASHES = String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|${END})`;
const QUOTED = String.raw`"(?:\\[\s\S]|[^"\\\n])*(?:"|$)|'(?:\\[\s\S]|[^'\\\n])*(?:'|$)`;
const LONG = String.raw`[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|${END})|'''[\s\S]*?(?:'''|${END}))|[rbfuRBFU]{0,2}(?:${QUOTED})`;
const TICKED = "`(?:\\\\[\\s\\S]|[^`\\\\])*(?:`|" + END + ")|" + QUOTED;
const SPREAD = String.raw`"(?:\\[\s\S]|[^"\\])*(?:"|${END})|'[^']*(?:'|${END})`;

const family = (comment, string, keywords, more = {}) => ({ comment, string, keywords: words(keywords), ...more });

const PYTHON = family(HASH, LONG, "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try type while with yield");
const JS = family(SLASHES, TICKED, SCRIPT);
const SHELL = family(HASH, SPREAD, "alias case cd do done echo elif else esac eval exec exit export fi for function if in local read return set shift source test then trap unset until while sudo", { variable: String.raw`\$\{[^}\n]*\}?|\$[\w@*#?$!-]+` });
const C = family(SLASHES, QUOTED, `${C_LIKE} auto bool char double extern float inline int long namespace nullptr register short signed sizeof struct template typedef union unsigned using virtual volatile constexpr size_t string override final`, { meta: String.raw`^[ \t]*#\w+` });
const GO = family(SLASHES, TICKED, "any bool break byte case chan const continue default defer else error fallthrough false float64 for func go goto if import int int64 interface iota map nil package range return rune select string struct switch true type uint var");
const RUST = family(SLASHES, String.raw`b?r?"(?:\\[\s\S]|[^"\\])*(?:"|${END})|'(?:\\.|[^'\\\n])'`, "as async await bool break char const continue crate dyn else enum extern f64 false fn for i32 i64 if impl in let loop match mod move mut None Ok Err Option pub ref Result return self Self Some static str String struct super trait true type u32 u64 u8 unsafe use usize Vec where while", { meta: String.raw`#!?\[[^\]\n]*\]` });
const SQL = family(DASHES, SPREAD, "add all alter and as asc begin between by case cascade check column commit constraint create cross default delete desc distinct drop else end exists false foreign from full group having if in index inner insert int integer into is join key left like limit not null offset on or order outer primary references returning right rollback select set table text then transaction trigger true union unique update using values varchar view when where with", { folded: true });
const JSON_ = family(SLASHES, QUOTED, "true false null", { key: String.raw`"(?:\\.|[^"\\\n])*"(?=\s*:)` });
const TOML = family(HASH, LONG, "true false yes no null on off", { key: String.raw`^[ \t-]*[\w.$-]+(?=\s*[=:](?:\s|$))|^\s*\[[^\]\n]*\]+` });
const MARKUP = family(String.raw`<!--[\s\S]*?(?:-->|${END})`, QUOTED, "", { meta: String.raw`<\/?[\w:-]+|\/?>|<![^>\n]*>`, key: String.raw`[\w:@.-]+(?==["'])` });
const CSS = family(String.raw`\/\*[\s\S]*?(?:\*\/|${END})`, QUOTED, "important inherit initial unset auto none", { key: String.raw`[\w-]+(?=\s*:[^:{}\n]*[;}\n])`, meta: String.raw`@[\w-]+|#[\da-fA-F]{3,8}\b` });
const OTHER = family(`${SLASHES}|${HASH}`, QUOTED, `${SCRIPT} def elif end fn func fun impl local module nil None not or and pass self struct then True False use when begin`);
const DIFF = { lines: [[/^(?:\+\+\+|---|diff|index).*/, "meta"], [/^@@.*/, "key"], [/^\+.*/, "added"], [/^-.*/, "removed"]] };

const LANGUAGES = {
  python: PYTHON, py: PYTHON, python3: PYTHON, pycon: PYTHON,
  js: JS, javascript: JS, jsx: JS, mjs: JS, ts: JS, typescript: JS, tsx: JS,
  sh: SHELL, bash: SHELL, shell: SHELL, zsh: SHELL, console: SHELL, dockerfile: SHELL, makefile: SHELL,
  c: C, h: C, cpp: C, "c++": C, cc: C, java: C, kotlin: C, swift: C, csharp: C, cs: C, php: C, scala: C,
  go: GO, rust: RUST, rs: RUST, sql: SQL, sqlite: SQL, json: JSON_, jsonc: JSON_, json5: JSON_, jsonl: JSON_,
  toml: TOML, yaml: TOML, yml: TOML, ini: TOML, conf: TOML, env: TOML,
  html: MARKUP, xml: MARKUP, svg: MARKUP, vue: MARKUP, css: CSS, scss: CSS, diff: DIFF, patch: DIFF,
  ruby: OTHER, rb: OTHER, lua: OTHER, perl: OTHER, r: OTHER, elixir: OTHER, haskell: OTHER, zig: OTHER, nix: OTHER,
};

const LONGEST = 60_000; // characters; longer code is shown without colours
const NUMBER = String.raw`\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z%]{0,4}\b`;
const WORD = String.raw`[A-Za-z_$][\w$]*`;

/** Pieces of code in order: [class or "", text]. Joined, they are the code. */
export function highlight(code, language) {
  const known = LANGUAGES[language];
  if (!known || code.length > LONGEST) return [["", code]];
  return known.lines ? byLine(code, known.lines) : byToken(code, known);
}

function byLine(code, kinds) {
  return code.split(/(?<=\n)/).map((line) => {
    const kind = kinds.find(([pattern]) => pattern.test(line));
    return [kind ? kind[1] : "", line];
  });
}

function byToken(code, known) {
  const pieces = [];
  let plain = 0;
  const push = (kind, from, to) => {
    if (from > plain) pieces.push(["", code.slice(plain, from)]);
    pieces.push([kind, code.slice(from, to)]);
    plain = to;
  };
  for (const token of code.matchAll(pattern(known))) {
    const kind = kindOf(token, known, code);
    if (kind) push(kind, token.index, token.index + token[0].length);
  }
  if (plain < code.length) pieces.push(["", code.slice(plain)]);
  return pieces;
}

function kindOf({ groups, 0: text, index }, known, code) {
  for (const kind of ["comment", "key", "string", "variable", "meta", "number"]) {
    if (groups[kind] !== undefined) return kind;
  }
  if (known.keywords.has(known.folded ? text.toLowerCase() : text)) return "keyword";
  return code[index + text.length] === "(" ? "call" : "";
}

function pattern(known) {
  if (known.pattern) return known.pattern;
  const parts = ["comment", "key", "string", "variable", "meta"].filter((kind) => known[kind]);
  const sources = parts.map((kind) => `(?<${kind}>${known[kind]})`);
  known.pattern = new RegExp([...sources, `(?<number>${NUMBER})`, WORD].join("|"), "gm");
  return known.pattern;
}
