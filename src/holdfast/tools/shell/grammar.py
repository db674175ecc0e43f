"""The grammar: bash, as tree-sitter reads it."""

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
