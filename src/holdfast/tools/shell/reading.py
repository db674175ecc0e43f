"""Reading: what a script would run, touch and hide, found by walking it as a shell would."""

from typing import TYPE_CHECKING

import msgspec

from holdfast.tools.shell.assigning import Assignments
from holdfast.tools.shell.calling import Calls
from holdfast.tools.shell.fragments import fragments_of
from holdfast.tools.shell.grammar import Grammar
from holdfast.tools.shell.limits import Limits
from holdfast.tools.shell.markers import CODED, NET, READ, UNKNOWN, bare, marks_of
from holdfast.tools.shell.multiplying import Multiplying
from holdfast.tools.shell.paths import Place
from holdfast.tools.shell.redirecting import redirect
from holdfast.tools.shell.run import Run, Seen, Sight, Touch, part_of
from holdfast.tools.shell.shell import Shell, usual_variables
from holdfast.tools.shell.statements import Statements
from holdfast.tools.shell.words import Words

if TYPE_CHECKING:
    from tree_sitter import Node

_SIGHTS = {
    NET: Sight.NETWORK_CODE,
    CODED: Sight.HIDDEN_CODE,
}


class Reading:
    """Owns what was found so far, and the shell at the place that is being read."""

    def __init__(self, grammar: Grammar, place: Place) -> None:
        self.runs: list[Run] = []
        self.touches: list[Touch] = []
        self.seen: list[Seen] = []
        self.shell = Shell(place=place, variables=usual_variables(place.home))
        self.words = Words(self)
        self.multiplying = Multiplying()
        self.limits = Limits()
        assignments = Assignments(self)
        self._calls = Calls(self, assignments)
        self._statements = Statements(self, self._calls, assignments)
        self._grammar = grammar

    # -- scripts

    def read(self, script: str, stdin: str = "") -> str:
        """Walk a script; what it prints."""
        self.limits.take(script)
        root = self._grammar.parse(script)
        if root.has_error:
            self._try_fragments(script)
        out = self.statement(root, stdin)
        if self.limits.at_the_top:
            self._read_uncalled()
        return out

    def read_code(self, script: str, *, part: str, given: bool = False) -> str:
        """Walk a script that came by way of another: what is known of it is read, and what is
        not is noted. What a file holds is as good as the file, unless it was `given` as words:
        then somebody went round to have it unseen."""
        for mark, sight in _SIGHTS.items():
            if mark in script:
                self.see(sight, part)
        known = bare(script)
        if not known.strip():
            if UNKNOWN in script or (given and READ in script):
                self.see(Sight.UNKNOWN_CODE, part)
            return marks_of(script)
        if script.lstrip()[:1] == UNKNOWN:
            self.see(Sight.UNKNOWN_CODE, part)
        return self.read(script.replace(CODED, "").replace(NET, UNKNOWN))

    def see(self, sight: Sight, part: str) -> None:
        self.seen.append(Seen(sight=sight, part=part_of(part)))

    def _try_fragments(self, script: str) -> None:
        self.see(Sight.UNREADABLE, script.strip())
        for words in fragments_of(script):
            self._calls.call(words, "")

    def _read_uncalled(self) -> None:
        uncalled = [name for name in self.shell.functions if not self.multiplying.was_called(name)]
        for name in uncalled:
            self.call_function(name, None, "")

    # -- statements and functions

    def statement(self, node: "Node", stdin: str) -> str:
        """Walk whatever may stand where a command does; what it prints."""
        with self.limits:
            return self._statements.walk(node, stdin)

    def call_function(self, name: str, arguments: tuple[str, ...] | None, stdin: str) -> str:
        """Walk a function's body. One that calls itself is walked once; one that does so while
        more of it runs beside is a fork bomb."""
        self.multiplying.note_call(name)
        body = self.shell.functions[name]
        if self.multiplying.is_running(body):
            if self.multiplying.multiplies(body):
                text = (body.text or b"").decode(errors="replace")
                self.see(Sight.FORK_BOMB, f"{name}() {text}")
            return UNKNOWN
        outer, self.shell.arguments = self.shell.arguments, arguments
        with self.multiplying.running(body):
            out = self.statement(body, stdin)
        self.shell.arguments = outer
        return out

    # -- what words need

    def expand(self, text: str) -> str:
        """The text of a here-document, which expands as if it stood in double quotes."""
        if "$" not in text and "`" not in text:
            return text
        string = _first_string(self._grammar.parse('"' + text.replace('"', '\\"') + '"'))
        return text if string is None else self.words.text(string)

    def capture(self, node: "Node") -> str:
        outer, self.shell = self.shell, self.shell.copy()
        out = []
        for child in node.named_children:
            if child.type == "file_redirect":
                out.append(redirect(self, [child], "").stdin or READ)
            else:
                out.append(self.statement(child, ""))
        self.shell = outer
        return "\n".join(out).rstrip("\n")

    def as_file(self, node: "Node") -> str:
        path = f"/dev/fd/{63 + len(self.shell.files)}"
        self.shell.files[path] = self.capture(node)
        return path

    def move(self, folder: str) -> None:
        """Stand in another folder; where one path leads there from anywhere, for certain."""
        self.shell.elsewhere = ()
        self.shell.place = msgspec.structs.replace(self.shell.place, cwd=folder)


def _first_string(root: "Node", depth: int = 4) -> "Node | None":
    for child in root.children:
        if child.type == "string":
            return child
        if depth and (found := _first_string(child, depth - 1)) is not None:
            return found
    return None
