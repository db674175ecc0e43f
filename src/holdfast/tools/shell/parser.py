"""The bash parser (tree-sitter), and the limits on how much of a script is analysed."""

import re
from typing import TYPE_CHECKING

from holdfast.tools.shell.markers import escape_wide

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


MAX_STEPS = 4000
MAX_DEPTH = 48
MAX_TEXT = 250_000
MAX_ITERATIONS = 16  # of a loop over known words

_ALWAYS_PARSED = 1000
_MAX_PIPES = 300
_MAX_FUNCTIONS = 200
_MAX_OPERATORS = 2500
_QUOTED = re.compile(
    r"<<-?[ \t]*(['\"\\]?)(\w+)\1[^\n]*\n.*?\n[ \t]*\2(?=\n|$)|'[^']*'|\"(?:[^\"\\]|\\.)*\"",
    re.DOTALL,
)
_OPERATOR = re.compile(r"[|&;(){}<>$`]")


def is_too_complex(script: str) -> bool:
    """Whether it has more operators, outside of quotes and here-documents, than a real script. The
    parser's time grows with the square of some of them: minutes, in the worst case."""
    if len(script) <= _ALWAYS_PARSED:
        return False
    unquoted = _QUOTED.sub("", script)
    if unquoted.count("|") > _MAX_PIPES or unquoted.count("()") > _MAX_FUNCTIONS:
        return True
    return len(_OPERATOR.findall(unquoted)) > _MAX_OPERATORS


class BashParser:
    """Owns the tree-sitter parser, which is loaded for the first script."""

    def __init__(self) -> None:
        self._parser: Parser | None = None

    def parse(self, script: str) -> "Node":
        """The syntax tree of a script. Every text has one; parts that are not valid bash are error
        nodes."""
        if self._parser is None:
            self._parser = _load_parser()
        return self._parser.parse(escape_wide(script).replace("\0", "").encode()).root_node


def node_text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def _load_parser() -> "Parser":
    # Needed when an agent first runs a command: no start waits for these.
    import tree_sitter_bash  # noqa: PLC0415 - see above
    from tree_sitter import Language, Parser  # noqa: PLC0415 - see above

    return Parser(Language(tree_sitter_bash.language()))


class ScriptTooComplex(Exception):
    """A script exceeds the limits of the analysis."""


class AnalysisLimits:
    """Owns the counts of one analysis. `with limits:` is one level of nesting."""

    def __init__(self) -> None:
        self._steps = 0
        self._length = 0
        self._depth = 0

    @property
    def at_top_level(self) -> bool:
        return self._depth == 0

    def count_script(self, script: str) -> None:
        """Count one more (nested) script. Raises `ScriptTooComplex`."""
        self._length += len(script)
        if self._length > MAX_TEXT or is_too_complex(script):
            raise ScriptTooComplex

    # Entered for every statement and call: a generator would cost more than the rest.

    def __enter__(self) -> None:
        """One level deeper. Raises `ScriptTooComplex`."""
        self._steps += 1
        if self._steps > MAX_STEPS or self._depth > MAX_DEPTH:
            raise ScriptTooComplex
        self._depth += 1

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
