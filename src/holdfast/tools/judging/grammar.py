"""The grammar: bash, as tree-sitter reads it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


class Grammar:
    """Owns the parser, which is loaded for the first script and not before."""

    def __init__(self) -> None:
        self._parser: Parser | None = None

    def parse(self, script: str) -> "Node":
        """The tree of a script. Whatever the text is, there is one; what could not be read in
        it is marked there as an error."""
        if self._parser is None:
            self._parser = _load()
        return self._parser.parse(script.encode("utf-8", "replace")).root_node


def _load() -> "Parser":
    # First wanted when an agent first runs a command: no start has to wait for these.
    import tree_sitter_bash  # noqa: PLC0415 - see above
    from tree_sitter import Language, Parser  # noqa: PLC0415 - see above

    return Parser(Language(tree_sitter_bash.language()))
