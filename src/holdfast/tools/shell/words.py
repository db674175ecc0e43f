"""Words: what the shell makes of one before it runs anything, as far as that can be known."""

from typing import TYPE_CHECKING, Protocol

from holdfast.tools.shell.arithmetic import calculate
from holdfast.tools.shell.markers import CLOSE, COMMA, OPEN, SPLIT, UNKNOWN
from holdfast.tools.shell.parameters import expand_parameter
from holdfast.tools.shell.quoting import (
    expand_braces,
    unescape_ansi,
    unescape_quoted,
    unescape_word,
)
from holdfast.tools.shell.shell import Shell

if TYPE_CHECKING:
    from tree_sitter import Node

_SPACES = str.maketrans(dict.fromkeys(" \t\n", SPLIT))
_LISTS = ("$@", "[@]}", "{@}")  # which become many words also inside quotes
_SUBSTITUTIONS = ("command_substitution", "process_substitution")


class Walking(Protocol):
    """Who walks the command, and knows its shell."""

    @property
    def shell(self) -> Shell: ...

    def capture(self, node: "Node") -> str:
        """What the commands inside `$(…)` print."""
        ...

    def as_file(self, node: "Node") -> str:
        """The path of a file with what the commands inside `<(…)` print."""
        ...


class Words:
    def __init__(self, walking: Walking) -> None:
        self._walking = walking

    def fields(self, node: "Node") -> list[str]:
        """The words that this one becomes: none, one or many."""
        text = self._live(node, quoted=False)
        if text.isascii():
            return [text]
        words: list[str] = []
        for word in expand_braces(text):
            if SPLIT in word:
                words += filter(None, word.split(SPLIT))
            else:
                words.append(word)
        return words

    def text(self, node: "Node") -> str:
        """The word as one, as in an assignment or in quotes."""
        text = self._live(node, quoted=True)
        return expand_braces(text.replace(SPLIT, " ").replace(COMMA, ","))[0]

    def look_inside(self, node: "Node") -> None:
        """Run whatever would run for the value of this node, whatever it is."""
        if node.type in _SUBSTITUTIONS:
            self._live(node, quoted=True)
            return
        for child in node.children:
            if child.child_count:
                self.look_inside(child)

    def _live(self, node: "Node", *, quoted: bool) -> str:
        match node.type:
            case "word" | "extglob_pattern" | "regex":
                return self._word(node, quoted=quoted)
            case "raw_string":
                return _text(node)[1:-1]
            case "string":
                return self._between(node, literal=unescape_quoted)[1:-1]
            case "concatenation" | "command_name" | "translated_string":
                return self._joined(node, quoted=quoted)
            case "simple_expansion" | "expansion" | "arithmetic_expansion":
                return self._expansion(node, quoted=quoted)
        return self._rare(node, quoted=quoted)

    def _rare(self, node: "Node", *, quoted: bool) -> str:
        match node.type:
            case "ansi_c_string":
                return unescape_ansi(_text(node)[2:-1])
            case "command_substitution":
                return self._split(self._walking.capture(node), quoted=quoted)
            case "process_substitution":
                return self._walking.as_file(node)
            case "brace_expression":
                inside = "".join(_text(child) for child in node.children[1:-1])
                return OPEN + inside + CLOSE
        self.look_inside(node)
        return _text(node)

    def _word(self, node: "Node", *, quoted: bool) -> str:
        text = _text(node)
        if text.startswith("~") and _begins(node):
            text = self._home(text)
        return text if quoted and "\\" not in text else unescape_word(text)

    def _home(self, text: str) -> str:
        name, slash, rest = text[1:].partition("/")
        homes = {"": self._walking.shell.variable("HOME") or UNKNOWN, "root": "/root"}
        homes |= {"+": self._walking.shell.place.cwd, "-": UNKNOWN}
        return homes.get(name, f"/home/{name}") + slash + rest

    def _joined(self, node: "Node", *, quoted: bool) -> str:
        return "".join(
            self._live(child, quoted=quoted) for child in node.children if child.type != "$"
        )

    def _between(self, node: "Node", *, literal: "Literal") -> str:
        """What is expanded in a text, and what stands between it, which has no nodes."""
        source = node.text or b""
        at, pieces = 0, []
        for child in node.children:
            if not child.is_named or child.type in ("string_content", "heredoc_content"):
                continue
            start = child.start_byte - node.start_byte
            pieces.append(literal(source[at:start].decode(errors="replace")))
            pieces.append(self._live(child, quoted=True))
            at = child.end_byte - node.start_byte
        pieces.append(literal(source[at:].decode(errors="replace")))
        return "".join(pieces)

    def _expansion(self, node: "Node", *, quoted: bool) -> str:
        if node.type == "arithmetic_expansion":
            self.look_inside(node)
            number = calculate(node, self._walking.shell)
            return UNKNOWN if number is None else str(number)
        value = expand_parameter(node, shell=self._walking.shell, word=self.text)
        return self._split(value, quoted=quoted and not _text(node).endswith(_LISTS))

    def _split(self, value: str, *, quoted: bool) -> str:
        if quoted:
            return value
        separators = self._walking.shell.variables.get("IFS", "").strip()
        if separators:
            value = _separated(value, separators)
        return value.translate(_SPACES) if value else SPLIT


class Literal(Protocol):
    def __call__(self, text: str, /) -> str: ...


def _text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def _separated(value: str, separators: str) -> str:
    """The value cut where the shell was told to. Where nobody knows where that is, or where it
    would take paths apart, nobody knows what becomes of it."""
    if UNKNOWN in separators or "/" in separators:
        return value if value.isalnum() else UNKNOWN
    return value.translate(dict.fromkeys(map(ord, separators), SPLIT))


def _begins(node: "Node") -> bool:
    """Whether a tilde here is at the beginning of its word."""
    parent = node.parent
    if parent is None or parent.type != "concatenation":
        return True
    return parent.start_byte == node.start_byte
