"""Words: what the shell makes of one before it runs anything, as far as that can be known."""

from typing import TYPE_CHECKING, Protocol

from holdfast.tools.shell.arithmetic import evaluate_arithmetic
from holdfast.tools.shell.markers import BRACE_CLOSE, BRACE_COMMA, BRACE_OPEN, UNKNOWN, WORD_SPLIT
from holdfast.tools.shell.parameters import expand_parameter
from holdfast.tools.shell.quoting import (
    expand_braces,
    unescape_ansi,
    unescape_quoted,
    unescape_word,
)
from holdfast.tools.shell.shell import ShellState

if TYPE_CHECKING:
    from tree_sitter import Node

_SPACES = str.maketrans(dict.fromkeys(" \t\n", WORD_SPLIT))
_LIST_EXPANSIONS = ("$@", "[@]}", "{@}")  # which become many words also inside quotes
_SUBSTITUTION_NODES = ("command_substitution", "process_substitution")


class ExpansionContext(Protocol):
    """Who walks the command, and knows its shell."""

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
        """The word as one, as in an assignment or in quotes."""
        text = self._expand(node, quoted=True)
        return expand_braces(text.replace(WORD_SPLIT, " ").replace(BRACE_COMMA, ","))[0]

    def run_substitutions(self, node: "Node") -> None:
        """Run whatever would run for the value of this node, whatever it is."""
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
                return _node_text(node)[1:-1]
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
                return unescape_ansi(_node_text(node)[2:-1])
            case "command_substitution":
                return self._split(self._context.command_output(node), quoted=quoted)
            case "process_substitution":
                return self._context.output_as_file(node)
            case "brace_expression":
                inside = "".join(_node_text(child) for child in node.children[1:-1])
                return BRACE_OPEN + inside + BRACE_CLOSE
        self.run_substitutions(node)
        return _node_text(node)

    def _expand_word(self, node: "Node", *, quoted: bool) -> str:
        text = _node_text(node)
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
        """What is expanded in a text, and what stands between it, which has no nodes."""
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
        return self._split(value, quoted=quoted and not _node_text(node).endswith(_LIST_EXPANSIONS))

    def _split(self, value: str, *, quoted: bool) -> str:
        if quoted:
            return value
        separators = self._context.shell.variables.get("IFS", "").strip()
        if separators:
            value = _split_by_ifs(value, separators)
        return value.translate(_SPACES) if value else WORD_SPLIT


class Unescape(Protocol):
    def __call__(self, text: str, /) -> str: ...


def _node_text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def _split_by_ifs(value: str, separators: str) -> str:
    """The value cut where the shell was told to. Where nobody knows where that is, or where it
    would take paths apart, nobody knows what becomes of it."""
    if UNKNOWN in separators or "/" in separators:
        return value if value.isalnum() else UNKNOWN
    return value.translate(dict.fromkeys(map(ord, separators), WORD_SPLIT))


def _starts_word(node: "Node") -> bool:
    """Whether a tilde here is at the beginning of its word."""
    parent = node.parent
    if parent is None or parent.type != "concatenation":
        return True
    return parent.start_byte == node.start_byte
