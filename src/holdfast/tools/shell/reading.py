"""Reading: what a script would run, touch and hide, found by walking it as a shell would."""

from typing import TYPE_CHECKING

import msgspec

from holdfast.tools.shell.assigning import Assignments
from holdfast.tools.shell.calling import CommandCalls
from holdfast.tools.shell.fragments import split_fragments
from holdfast.tools.shell.grammar import BashParser
from holdfast.tools.shell.limits import AnalysisLimits
from holdfast.tools.shell.markers import (
    DECODED,
    FILE_CONTENT,
    NETWORK_DATA,
    UNKNOWN,
    markers_in,
    strip_markers,
)
from holdfast.tools.shell.multiplying import ConcurrencyTracker
from holdfast.tools.shell.paths import PathResolver
from holdfast.tools.shell.redirecting import apply_redirections
from holdfast.tools.shell.run import FoundHazard, Hazard, PathEffect, ProgramCall, to_excerpt
from holdfast.tools.shell.shell import ShellState, default_variables
from holdfast.tools.shell.statements import StatementWalker
from holdfast.tools.shell.words import WordExpander

if TYPE_CHECKING:
    from tree_sitter import Node

_MARKER_HAZARDS = {
    NETWORK_DATA: Hazard.NETWORK_CODE,
    DECODED: Hazard.HIDDEN_CODE,
}


class ScriptWalker:
    """Owns what was found so far, and the shell at the place that is being read."""

    def __init__(self, parser: BashParser, paths: PathResolver) -> None:
        self.programs: list[ProgramCall] = []
        self.path_effects: list[PathEffect] = []
        self.hazards: list[FoundHazard] = []
        self.shell = ShellState(paths=paths, variables=default_variables(paths.home))
        self.words = WordExpander(self)
        self.concurrency = ConcurrencyTracker()
        self.limits = AnalysisLimits()
        assignments = Assignments(self)
        self._calls = CommandCalls(self, assignments)
        self._statements = StatementWalker(self, self._calls, assignments)
        self._parser = parser

    # -- scripts

    def walk_script(self, script: str, stdin: str = "") -> str:
        """Walk a script; what it prints."""
        self.limits.count_script(script)
        root = self._parser.parse(script)
        if root.has_error:
            self._try_fragments(script)
        out = self.statement(root, stdin)
        if self.limits.at_top_level:
            self._walk_uncalled_functions()
        return out

    def walk_nested_script(self, script: str, *, part: str, inline: bool = False) -> str:
        """Walk a script that came by way of another: what is known of it is read, and what is
        not is noted. What a file holds is as good as the file, unless it was `given` as words:
        then somebody went round to have it unseen."""
        for mark, sight in _MARKER_HAZARDS.items():
            if mark in script:
                self.add_hazard(sight, part)
        known = strip_markers(script)
        if not known.strip():
            if UNKNOWN in script or (inline and FILE_CONTENT in script):
                self.add_hazard(Hazard.UNKNOWN_CODE, part)
            return markers_in(script)
        if script.lstrip()[:1] == UNKNOWN:
            self.add_hazard(Hazard.UNKNOWN_CODE, part)
        return self.walk_script(script.replace(DECODED, "").replace(NETWORK_DATA, UNKNOWN))

    def add_hazard(self, sight: Hazard, part: str) -> None:
        self.hazards.append(FoundHazard(hazard=sight, part=to_excerpt(part)))

    def _try_fragments(self, script: str) -> None:
        self.add_hazard(Hazard.UNREADABLE, script.strip())
        for words in split_fragments(script):
            self._calls.call(words, "")

    def _walk_uncalled_functions(self) -> None:
        uncalled = [name for name in self.shell.functions if not self.concurrency.was_called(name)]
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
        self.concurrency.note_call(name)
        body = self.shell.functions[name]
        if self.concurrency.is_running(body):
            if self.concurrency.recurses_in_parallel(body):
                text = (body.text or b"").decode(errors="replace")
                self.add_hazard(Hazard.FORK_BOMB, f"{name}() {text}")
            return UNKNOWN
        outer, self.shell.arguments = self.shell.arguments, arguments
        with self.concurrency.running(body):
            out = self.statement(body, stdin)
        self.shell.arguments = outer
        return out

    # -- what words need

    def expand_heredoc(self, text: str) -> str:
        """The text of a here-document, which expands as if it stood in double quotes."""
        if "$" not in text and "`" not in text:
            return text
        string = _first_string(self._parser.parse('"' + text.replace('"', '\\"') + '"'))
        return text if string is None else self.words.text(string)

    def command_output(self, node: "Node") -> str:
        outer, self.shell = self.shell, self.shell.copy()
        out = []
        for child in node.named_children:
            if child.type == "file_redirect":
                out.append(apply_redirections(self, [child], "").stdin or FILE_CONTENT)
            else:
                out.append(self.statement(child, ""))
        self.shell = outer
        return "\n".join(out).rstrip("\n")

    def output_as_file(self, node: "Node") -> str:
        path = f"/dev/fd/{63 + len(self.shell.files)}"
        self.shell.files[path] = self.command_output(node)
        return path

    def change_directory(self, folder: str) -> None:
        """Stand in another folder; where one path leads there from anywhere, for certain."""
        self.shell.alternative_paths = ()
        self.shell.paths = msgspec.structs.replace(self.shell.paths, cwd=folder)


def _first_string(root: "Node", depth: int = 4) -> "Node | None":
    for child in root.children:
        if child.type == "string":
            return child
        if depth and (found := _first_string(child, depth - 1)) is not None:
            return found
    return None
