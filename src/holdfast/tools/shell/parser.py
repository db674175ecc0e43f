"""The bash parser (tree-sitter), and the limits on how much of a script is analysed."""

import re
from typing import TYPE_CHECKING

from holdfast.tools.shell.markers import escape_wide

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


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
    """Whether it has more signs, quotes and here-documents aside, than anybody writes. The time
    that the grammar takes grows with the square of some of them: minutes, at the worst."""
    if len(script) <= _ALWAYS_PARSED:
        return False
    naked = _QUOTED.sub("", script)
    if naked.count("|") > _MAX_PIPES or naked.count("()") > _MAX_FUNCTIONS:
        return True
    return len(_OPERATOR.findall(naked)) > _MAX_OPERATORS


class BashParser:
    """Owns the parser, which is loaded for the first script and not before."""

    def __init__(self) -> None:
        self._parser: Parser | None = None

    def parse(self, script: str) -> "Node":
        """The tree of a script. Whatever the text is, there is one; what could not be read in
        it is marked there as an error."""
        if self._parser is None:
            self._parser = _load_parser()
        return self._parser.parse(escape_wide(script).replace("\0", "").encode()).root_node


def _load_parser() -> "Parser":
    # First wanted when an agent first runs a command: no start has to wait for these.
    import tree_sitter_bash  # noqa: PLC0415 - see above
    from tree_sitter import Language, Parser  # noqa: PLC0415 - see above

    return Parser(Language(tree_sitter_bash.language()))


MAX_STEPS = 4000
MAX_DEPTH = 48
MAX_TEXT = 250_000
MAX_ITERATIONS = 16  # of a loop over known words


class ScriptTooComplex(Exception):
    """There is more in a script than anybody would read."""


class AnalysisLimits:
    """Owns how far one reading has come. `with limits:` is one level further down."""

    def __init__(self) -> None:
        self._steps = 0
        self._length = 0
        self._depth = 0

    @property
    def at_top_level(self) -> bool:
        return self._depth == 0

    def count_script(self, script: str) -> None:
        """One more script, of all that are read in one; raises Tangled for one too many."""
        self._length += len(script)
        if self._length > MAX_TEXT or is_too_complex(script):
            raise ScriptTooComplex

    # Entered for every statement and every call: a generator would cost more than the rest of it.

    def __enter__(self) -> None:
        """One level further down; raises Tangled where nobody would follow."""
        self._steps += 1
        if self._steps > MAX_STEPS or self._depth > MAX_DEPTH:
            raise ScriptTooComplex
        self._depth += 1

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
