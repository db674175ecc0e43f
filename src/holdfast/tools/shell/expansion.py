"""Word expansion as bash does it, as far as it can be known: quotes, braces, parameters,
arithmetic, substitutions, splitting."""

import re
from collections.abc import Callable
from fnmatch import translate
from itertools import product
from typing import TYPE_CHECKING, Protocol

from holdfast.tools.shell.markers import (
    BRACE_CLOSE,
    BRACE_COMMA,
    BRACE_OPEN,
    UNKNOWN,
    WORD_SPLIT,
    sanitise,
)
from holdfast.tools.shell.parser import node_text
from holdfast.tools.shell.state import ShellState

if TYPE_CHECKING:
    from tree_sitter import Node


MAX_BRACE_WORDS = 64

_ESCAPES = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_NAMED_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b"}
_NAMED_ESCAPES |= {"f": "\f", "v": "\v"}
_BRACES = str.maketrans({"{": BRACE_OPEN, ",": BRACE_COMMA, "}": BRACE_CLOSE})
_BACKSLASH = re.compile(r"\\(.)", re.DOTALL)
_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")


def unescape_ansi(text: str) -> str:
    """Replaces the escapes of `$'…'`, `echo -e` and `printf`."""
    return _ESCAPES.sub(_unescape_one, text)


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
    elif code[0] in "01234567":
        number = int(code, 8)
    elif code[0] == "c":
        number = ord(code[1]) & 31
    else:
        return _NAMED_ESCAPES.get(code, code)
    return sanitise(chr(number)) if number <= 0x10FFFF else "?"


def unescape_word(text: str) -> str:
    """Removes the backslashes of an unquoted word. Its unescaped braces become active."""
    if "\\" not in text:
        return text.translate(_BRACES)
    pieces, at = [], 0
    for match in _BACKSLASH.finditer(text):
        pieces.append(text[at : match.start()].translate(_BRACES))
        pieces.append("" if match[1] == "\n" else match[1])
        at = match.end()
    return "".join((*pieces, text[at:].translate(_BRACES)))


def unescape_quoted(text: str) -> str:
    """Removes the backslashes inside double quotes."""
    if "\\" not in text:
        return text
    return _IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], text)


def expand_braces(text: str) -> list[str]:
    """The expansion of a word with active braces, up to a few dozen words."""
    if BRACE_OPEN not in text:
        return [_restore_braces(text)]
    return [_restore_braces(word) for word in _expand_nested(text, 0)[:MAX_BRACE_WORDS]]


def _expand_nested(text: str, depth: int) -> list[str]:
    start = text.find(BRACE_OPEN)
    end = _closing_brace(text, start)
    if start < 0 or end < 0 or depth > 8:
        return [text]
    choices = _brace_choices(text[start + 1 : end])
    if len(choices) < 2:
        head = text[: start + 1].replace(BRACE_OPEN, "{")
        return [head + rest for rest in _expand_nested(text[start + 1 :], depth + 1)]
    inner = [word for choice in choices for word in _expand_nested(choice, depth + 1)]
    ends = _expand_nested(text[end + 1 :], depth + 1)
    pairs = product(inner[:MAX_BRACE_WORDS], ends[:MAX_BRACE_WORDS])
    return [text[:start] + one + other for one, other in pairs][:MAX_BRACE_WORDS]


def _closing_brace(text: str, start: int) -> int:
    depth = 0
    for at in range(max(start, 0), len(text)):
        depth += (text[at] == BRACE_OPEN) - (text[at] == BRACE_CLOSE)
        if depth == 0 and text[at] == BRACE_CLOSE:
            return at
    return -1


def _brace_choices(inside: str) -> list[str]:
    if (found := _RANGE.fullmatch(inside)) is not None:
        return _brace_range(found[1], found[2])
    choices, depth = [""], 0
    for letter in inside:
        depth += (letter == BRACE_OPEN) - (letter == BRACE_CLOSE)
        if letter == BRACE_COMMA and depth == 0:
            choices.append("")
        else:
            choices[-1] += letter
    return choices


def _brace_range(first: str, last: str) -> list[str]:
    if first.isalpha() != last.isalpha() or len(first) > 9 or len(last) > 9:
        return [first, last]
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    step = 1 if low <= high else -1
    numbers = range(low, high + step, step)[:MAX_BRACE_WORDS]
    return [chr(number) if first.isalpha() else str(number) for number in numbers]


def _restore_braces(text: str) -> str:
    return text.replace(BRACE_OPEN, "{").replace(BRACE_COMMA, ",").replace(BRACE_CLOSE, "}")


_MAX_DEPTH = 12
_MAX_OPERAND = 1 << 62


def evaluate_arithmetic(node: "Node", shell: ShellState, depth: int = 0) -> int | None:
    """The value of an arithmetic expression; None: it is unknown, or more than sums and
    products."""
    if depth > _MAX_DEPTH:
        return None
    text = (node.text or b"").decode(errors="replace")
    match node.type:
        case "number" | "word":
            return int(text) if text.isdecimal() and len(text) < 18 else None
        case "variable_name" | "simple_expansion":
            value = shell.variable(text.lstrip("$")) or ""
            return int(value) if value.isdecimal() and len(value) < 18 else None
        case "arithmetic_expansion" | "parenthesized_expression" if len(node.children) == 3:
            return evaluate_arithmetic(node.children[1], shell, depth + 1)
        case "binary_expression" if len(node.children) == 3:
            return _evaluate_binary(node, shell, depth + 1)
    return None


def _evaluate_binary(node: "Node", shell: ShellState, depth: int) -> int | None:
    left = evaluate_arithmetic(node.children[0], shell, depth)
    right = evaluate_arithmetic(node.children[2], shell, depth)
    if left is None or right is None or max(abs(left), abs(right)) > _MAX_OPERAND:
        return None
    match node.children[1].type:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    return None


ExpandWord = Callable[["Node"], str]
_NAME_NODES = ("variable_name", "special_variable_name", "subscript")


def expand_parameter(node: "Node", *, shell: ShellState, word: ExpandWord) -> str:
    """Expands `${…}`. `word` expands the words inside the braces."""
    name, after = _name_and_rest(node)
    value = _parameter_value(name, shell)
    if not after:
        return UNKNOWN if value is None else value
    operator = (after[0].text or b"").decode(errors="replace")
    words = [word(child) for child in after[1:] if child.is_named]
    return _apply_operator(operator, value, words, name=name, shell=shell)


def _name_and_rest(node: "Node") -> tuple[str, list["Node"]]:
    children = [child for child in node.children if child.type not in ("$", "${", "}")]
    for at, child in enumerate(children):
        if child.type in _NAME_NODES:
            name = (child.text or b"").decode(errors="replace")
            rest = children[at + 1 :]
            return name, rest or children[:at]
    return "", []


def _parameter_value(name: str, shell: ShellState) -> str | None:
    plain, bracket, index = name.partition("[")
    if not bracket:
        return shell.variable(name)
    if index in ("@]", "*]"):
        return shell.variable(plain)
    exact = shell.variables.get(name)
    if exact is not None:
        return exact
    values = (shell.variables.get(plain) or "").split()
    at = index[:-1]
    return values[int(at)] if at.isdecimal() and int(at) < len(values) else None


def _apply_operator(
    operator: str, value: str | None, words: list[str], *, name: str, shell: ShellState
) -> str:
    default = words[0] if words else ""
    if operator in (":-", "-", ":=", "="):
        # If the value is unknown, the default may apply.
        result = value or default
        if operator in (":=", "=") and not value:
            shell.variables[name] = result
        return result
    if operator in (":+", "+"):
        return default if value is None or value else ""
    if value is None:
        return UNKNOWN
    return _transform(operator, value, words, shell)


def _transform(operator: str, value: str, words: list[str], shell: ShellState) -> str:
    match operator:
        case "!":
            found = shell.variable(value)
            return UNKNOWN if found is None else found
        case ":":
            return _substring(value, words)
        case "^^" | "^":
            return value.upper() if operator == "^^" else value[:1].upper() + value[1:]
        case ",," | ",":
            return value.lower() if operator == ",," else value[:1].lower() + value[1:]
        case "#" | "##" | "%" | "%%" if words:
            return _trim_pattern(operator, value, words[0])
        case "/" | "//" if words:
            count = 1 if operator == "/" else -1
            return value.replace(words[0], words[1] if len(words) > 1 else "", count)
        case "@" | "?" | ":?":
            return value
    return UNKNOWN


def _substring(value: str, words: list[str]) -> str:
    numbers = [int(word) for word in words if word.strip().lstrip("-").isdecimal()]
    if len(numbers) != len(words) or not numbers:
        return UNKNOWN
    start = numbers[0]
    if len(numbers) == 1:
        return value[start:]
    end = start + numbers[1] if numbers[1] >= 0 else len(value) + numbers[1]
    return value[start:end]


def _trim_pattern(operator: str, value: str, pattern: str) -> str:
    matching = re.compile(translate(pattern))
    lengths = range(len(value) + 1)
    for length in reversed(lengths) if len(operator) == 2 else lengths:
        cut = value[:length] if operator[0] == "#" else value[len(value) - length :]
        if length < 200 and matching.match(cut):
            return value[length:] if operator[0] == "#" else value[: len(value) - length]
    return value


_SPACES = str.maketrans(dict.fromkeys(" \t\n", WORD_SPLIT))
_LIST_EXPANSIONS = ("$@", "[@]}", "{@}")  # which become many words also inside quotes
_SUBSTITUTION_NODES = ("command_substitution", "process_substitution")


class ExpansionContext(Protocol):
    """What an expansion asks of the walker, which knows the state of the shell."""

    @property
    def shell(self) -> ShellState: ...

    def command_output(self, node: "Node") -> str:
        """What the commands inside `$(…)` print."""
        ...

    def output_as_file(self, node: "Node") -> str:
        """The path of a file with what the commands inside `<(…)` print."""
        ...


class WordExpander:
    def __init__(self, context: ExpansionContext) -> None:
        self._context = context

    def fields(self, node: "Node") -> list[str]:
        """The words that this one becomes: none, one or many."""
        text = self._expand(node, quoted=False)
        if text.isascii():
            return [text]
        words: list[str] = []
        for word in expand_braces(text):
            if WORD_SPLIT in word:
                words += filter(None, word.split(WORD_SPLIT))
            else:
                words.append(word)
        return words

    def text(self, node: "Node") -> str:
        """The word as one string, as in an assignment or in quotes."""
        text = self._expand(node, quoted=True)
        return expand_braces(text.replace(WORD_SPLIT, " ").replace(BRACE_COMMA, ","))[0]

    def run_substitutions(self, node: "Node") -> None:
        """Judge everything that would run for the value of this node."""
        if node.type in _SUBSTITUTION_NODES:
            self._expand(node, quoted=True)
            return
        for child in node.children:
            if child.child_count:
                self.run_substitutions(child)

    def _expand(self, node: "Node", *, quoted: bool) -> str:
        match node.type:
            case "word" | "extglob_pattern" | "regex":
                return self._expand_word(node, quoted=quoted)
            case "raw_string":
                return node_text(node)[1:-1]
            case "string":
                return self._expand_string(node, literal=unescape_quoted)[1:-1]
            case "concatenation" | "command_name" | "translated_string":
                return self._concatenate(node, quoted=quoted)
            case "simple_expansion" | "expansion" | "arithmetic_expansion":
                return self._expand_parameter(node, quoted=quoted)
        return self._expand_rare(node, quoted=quoted)

    def _expand_rare(self, node: "Node", *, quoted: bool) -> str:
        match node.type:
            case "ansi_c_string":
                return unescape_ansi(node_text(node)[2:-1])
            case "command_substitution":
                return self._split(self._context.command_output(node), quoted=quoted)
            case "process_substitution":
                return self._context.output_as_file(node)
            case "brace_expression":
                inside = "".join(node_text(child) for child in node.children[1:-1])
                return BRACE_OPEN + inside + BRACE_CLOSE
        self.run_substitutions(node)
        return node_text(node)

    def _expand_word(self, node: "Node", *, quoted: bool) -> str:
        text = node_text(node)
        if text.startswith("~") and _starts_word(node):
            text = self._expand_tilde(text)
        return text if quoted and "\\" not in text else unescape_word(text)

    def _expand_tilde(self, text: str) -> str:
        name, slash, rest = text[1:].partition("/")
        homes = {"": self._context.shell.variable("HOME") or UNKNOWN, "root": "/root"}
        homes |= {"+": self._context.shell.paths.cwd, "-": UNKNOWN}
        return homes.get(name, f"/home/{name}") + slash + rest

    def _concatenate(self, node: "Node", *, quoted: bool) -> str:
        return "".join(
            self._expand(child, quoted=quoted) for child in node.children if child.type != "$"
        )

    def _expand_string(self, node: "Node", *, literal: "Unescape") -> str:
        """The expansions in a text, and the plain text between them, which has no nodes."""
        source = node.text or b""
        at, pieces = 0, []
        for child in node.children:
            if not child.is_named or child.type in ("string_content", "heredoc_content"):
                continue
            start = child.start_byte - node.start_byte
            pieces.append(literal(source[at:start].decode(errors="replace")))
            pieces.append(self._expand(child, quoted=True))
            at = child.end_byte - node.start_byte
        pieces.append(literal(source[at:].decode(errors="replace")))
        return "".join(pieces)

    def _expand_parameter(self, node: "Node", *, quoted: bool) -> str:
        if node.type == "arithmetic_expansion":
            self.run_substitutions(node)
            number = evaluate_arithmetic(node, self._context.shell)
            return UNKNOWN if number is None else str(number)
        value = expand_parameter(node, shell=self._context.shell, word=self.text)
        return self._split(value, quoted=quoted and not node_text(node).endswith(_LIST_EXPANSIONS))

    def _split(self, value: str, *, quoted: bool) -> str:
        if quoted:
            return value
        separators = self._context.shell.variables.get("IFS", "").strip()
        if separators:
            value = _split_by_ifs(value, separators)
        return value.translate(_SPACES) if value else WORD_SPLIT


class Unescape(Protocol):
    def __call__(self, text: str, /) -> str: ...


def _split_by_ifs(value: str, separators: str) -> str:
    """The value split at the characters of IFS. It is unknown if these characters are unknown,
    or if they contain a slash, which would split paths."""
    if UNKNOWN in separators or "/" in separators:
        return value if value.isalnum() else UNKNOWN
    return value.translate(dict.fromkeys(map(ord, separators), WORD_SPLIT))


def _starts_word(node: "Node") -> bool:
    """Whether a tilde here is at the beginning of its word."""
    parent = node.parent
    if parent is None or parent.type != "concatenation":
        return True
    return parent.start_byte == node.start_byte
