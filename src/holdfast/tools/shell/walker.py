"""Walks a script as a shell would, and collects which programs it runs, which paths it touches
and what it hides."""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.tools.shell.expansion import WordExpander, expand_braces, unescape_word
from holdfast.tools.shell.invocation import FoundHazard, Hazard, PathEffect, ProgramCall, to_excerpt
from holdfast.tools.shell.markers import (
    DECODED,
    FILE_CONTENT,
    NETWORK_DATA,
    UNKNOWN,
    markers_in,
    strip_markers,
)
from holdfast.tools.shell.parser import MAX_ITERATIONS, AnalysisLimits, BashParser, node_text
from holdfast.tools.shell.paths import PathResolver
from holdfast.tools.shell.simple_command import (
    Assignments,
    CommandCalls,
    RedirectionContext,
    apply_redirections,
)
from holdfast.tools.shell.state import (
    ConcurrencyTracker,
    ShellState,
    default_variables,
    spawns_forever,
)

if TYPE_CHECKING:
    from tree_sitter import Node


_SEPARATORS = re.compile(r"[;\n|&()]")
_LEADING_KEYWORDS = ("{", "}", "!", "if", "then", "else", "elif", "while", "until", "do", "")


def split_fragments(script: str) -> Iterator[list[str]]:
    """The words of each piece between two command separators. The grammar does not know all of
    bash, so these are tried in addition to the syntax tree."""
    for piece in _SEPARATORS.split(script)[:MAX_ITERATIONS]:
        words = [
            plain for word in _split_words(piece) for plain in expand_braces(unescape_word(word))
        ]
        while words and words[0] in _LEADING_KEYWORDS:
            words.pop(0)
        if words:
            yield words


def _split_words(piece: str) -> list[str]:
    try:
        return shlex.split(piece, comments=True)
    except ValueError:
        return piece.split()


_CERTAIN = _SEQUENTIAL = contextlib.nullcontext()
_SEQUENCE_NODES = ("program", "compound_statement", "do_group", "negated_command", "ERROR")
_BRANCH_NODES = ("if_statement", "case_statement", "elif_clause", "else_clause", "case_item")
_WORD_NODES = ("word", "string", "raw_string", "concatenation")


class StatementContext(RedirectionContext, Protocol):
    """What a statement reader asks of the walker: to walk the statements inside."""

    concurrency: ConcurrencyTracker

    def statement(self, node: "Node", stdin: str) -> str: ...
    def add_hazard(self, hazard: Hazard, part: str) -> None: ...


class StatementWalker:
    def __init__(
        self, context: StatementContext, calls: CommandCalls, assignments: Assignments
    ) -> None:
        self._context = context
        self._calls = calls
        self._assignments = assignments

    def walk(self, node: "Node", stdin: str) -> str:
        """Walk any statement and return its output, as far as it is known."""
        walk = _STATEMENTS.get(node.type)
        if walk is not None:
            return walk(self, node, stdin)
        self._context.words.run_substitutions(node)
        return ""

    def _command(self, node: "Node", stdin: str) -> str:
        return self._calls.command(node, stdin)

    def _assign(self, node: "Node", stdin: str) -> str:
        self._assignments.assign(node)
        return ""

    def _word(self, node: "Node", stdin: str) -> str:
        self._context.words.text(node)
        return ""

    def _pipe(self, node: "Node", stdin: str) -> str:
        return self._pipeline(list(node.named_children), stdin)

    def _branches(self, node: "Node", stdin: str) -> str:
        with self._context.shell.uncertain(directory=True):
            return self._sequence(node, stdin)

    def _sequence(self, node: "Node", stdin: str) -> str:
        out = []
        for child in node.children:
            if not child.is_named:
                continue
            following = child.next_sibling
            spawned = following is not None and following.type == "&"
            unsure = (
                self._context.shell.uncertain(directory=True) if child.type == "list" else _CERTAIN
            )
            with self._context.concurrency.in_parallel() if spawned else _SEQUENTIAL, unsure:
                out.append(self._context.statement(child, stdin))
        return "\n".join(filter(None, out))

    def _list(self, node: "Node", stdin: str) -> str:
        left, *rest = [child for child in node.children if child.is_named]
        out = self._context.statement(left, stdin)
        either = any(child.type == "||" for child in node.children)
        for child in rest:
            with self._context.shell.uncertain(directory=either):
                out += self._context.statement(child, stdin)
        return out

    def _pipeline(self, stages: list["Node"], stdin: str) -> str:
        outer = self._context.shell
        with self._context.concurrency.in_parallel():
            for stage in stages:
                self._context.shell = outer.copy()
                stdin = self._context.statement(stage, stdin)
        self._context.shell = outer
        return stdin

    def _subshell(self, node: "Node", stdin: str) -> str:
        outer, self._context.shell = self._context.shell, self._context.shell.copy()
        out = self._sequence(node, stdin)
        self._context.shell = outer
        return out

    def _redirected(self, node: "Node", stdin: str) -> str:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        work = apply_redirections(self._context, redirects, stdin)
        out = self._context.statement(body, work.stdin) if body is not None else ""
        out = work.store_output(self._context, out, bodiless=body is None)
        if work.piped:
            out = self._pipeline(work.piped, out)
        for after in work.after:
            out += self._context.statement(after, stdin)
        return out

    def _for(self, node: "Node", stdin: str) -> str:
        name = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        values = [
            word
            for child in node.children_by_field_name("value")
            for word in self._context.words.fields(child)
        ]
        out = ""
        for value in values[:MAX_ITERATIONS] or [UNKNOWN]:
            if name is not None and body is not None:
                self._context.shell.variables[node_text(name)] = value
                out = self._context.statement(body, stdin)
        return out

    def _while(self, node: "Node", stdin: str) -> str:
        if spawns_forever(node):
            self._context.add_hazard(Hazard.FORK_BOMB, node_text(node))
        return self._sequence(node, stdin)

    def _define(self, node: "Node", stdin: str) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._context.shell.functions[self._context.words.text(name)] = body
        return ""


# Once for all walkers: there is one for each command.
_STATEMENTS: dict[str, Callable[[StatementWalker, "Node", str], str]] = {
    "command": StatementWalker._command,
    "pipeline": StatementWalker._pipe,
    "redirected_statement": StatementWalker._redirected,
    "variable_assignment": StatementWalker._assign,
    "variable_assignments": StatementWalker._assign,
    "declaration_command": StatementWalker._assign,
    "subshell": StatementWalker._subshell,
    "function_definition": StatementWalker._define,
    "list": StatementWalker._list,
    "for_statement": StatementWalker._for,
    "while_statement": StatementWalker._while,
    "c_style_for_statement": StatementWalker._while,
    **dict.fromkeys(_WORD_NODES, StatementWalker._word),
    **dict.fromkeys(_BRANCH_NODES, StatementWalker._branches),
    **dict.fromkeys(_SEQUENCE_NODES, StatementWalker._sequence),
}


_MARKER_HAZARDS = {
    NETWORK_DATA: Hazard.NETWORK_CODE,
    DECODED: Hazard.HIDDEN_CODE,
}


class ScriptWalker:
    """Owns what was found so far, and the shell state at the analysed point."""

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
        """Walk a script and return its output, as far as it is known."""
        self.limits.count_script(script)
        root = self._parser.parse(script)
        if root.has_error:
            self._try_fragments(script)
        out = self.statement(root, stdin)
        if self.limits.at_top_level:
            self._walk_uncalled_functions()
        return out

    def walk_nested_script(self, script: str, *, part: str, inline: bool = False) -> str:
        """Walk a script that another one runs: the known parts are analysed, the unknown ones are
        hazards. Contents of a file are as trusted as the file, unless they are passed `inline`:
        then the script hides what it runs."""
        for mark, hazard in _MARKER_HAZARDS.items():
            if mark in script:
                self.add_hazard(hazard, part)
        known = strip_markers(script)
        if not known.strip():
            if UNKNOWN in script or (inline and FILE_CONTENT in script):
                self.add_hazard(Hazard.UNKNOWN_CODE, part)
            return markers_in(script)
        if script.lstrip()[:1] == UNKNOWN:
            self.add_hazard(Hazard.UNKNOWN_CODE, part)
        return self.walk_script(script.replace(DECODED, "").replace(NETWORK_DATA, UNKNOWN))

    def add_hazard(self, hazard: Hazard, part: str) -> None:
        self.hazards.append(FoundHazard(hazard=hazard, part=to_excerpt(part)))

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
        """Walk any statement and return its output, as far as it is known."""
        with self.limits:
            return self._statements.walk(node, stdin)

    def call_function(self, name: str, arguments: tuple[str, ...] | None, stdin: str) -> str:
        """Walk a function's body. A recursive one is walked once; one that calls itself in parallel
        is a fork bomb."""
        self.concurrency.note_call(name)
        body = self.shell.functions[name]
        if self.concurrency.is_running(body):
            if self.concurrency.recurses_in_parallel(body):
                text = node_text(body)
                self.add_hazard(Hazard.FORK_BOMB, f"{name}() {text}")
            return UNKNOWN
        outer, self.shell.arguments = self.shell.arguments, arguments
        with self.concurrency.running(body):
            out = self.statement(body, stdin)
        self.shell.arguments = outer
        return out

    # -- what words need

    def expand_heredoc(self, text: str) -> str:
        """The text of a here-document, which expands like a double-quoted string."""
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
        """Change to a directory that is known for certain."""
        self.shell.alternative_paths = ()
        self.shell.paths = msgspec.structs.replace(self.shell.paths, cwd=folder)


def _first_string(root: "Node", depth: int = 4) -> "Node | None":
    for child in root.children:
        if child.type == "string":
            return child
        if depth and (found := _first_string(child, depth - 1)) is not None:
            return found
    return None
