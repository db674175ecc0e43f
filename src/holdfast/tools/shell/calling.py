"""Calling: what becomes of one command when its words are known."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.tools.shell.assigning import Assignments
from holdfast.tools.shell.builtins import apply_builtin
from holdfast.tools.shell.code import inspect_code
from holdfast.tools.shell.hatches import ALSO_PRINTING
from holdfast.tools.shell.inner import Nested, NestedCode, NestedCommand, NestedScript
from holdfast.tools.shell.limits import AnalysisLimits
from holdfast.tools.shell.markers import DECODED, FILE_CONTENT, NETWORK_DATA, UNKNOWN, strip_markers
from holdfast.tools.shell.multiplying import ConcurrencyTracker
from holdfast.tools.shell.outputs import predict_output
from holdfast.tools.shell.paths import PathResolver
from holdfast.tools.shell.redirecting import apply_redirections
from holdfast.tools.shell.run import FoundHazard, Hazard, PathEffect, ProgramCall
from holdfast.tools.shell.shell import ShellState
from holdfast.tools.shell.vehicles import nested_in
from holdfast.tools.shell.words import WordExpander

if TYPE_CHECKING:
    from tree_sitter import Node

# Programs that people name by a variable; what such a one holds is no secret of this command.
_CUSTOMARY_VARIABLES = re.compile(
    r'"?\$\{?(CC|CXX|LD|AR|PYTHON\d?|PY|PIP|NODE|NPM|EDITOR|VISUAL|PAGER|MAKE|CMAKE|GO|CARGO'
    r'|RUSTC|JAVA|GRADLE|MVN|RUBY|PHP|BROWSER|GIT|DOCKER|COMPOSE|KUBECTL|SHELL|BASH)\}?"?'
)
_MATCHED_PROGRAMS = (
    "rm",
    "dd",
    "mkfs",
    "sudo",
    "shutdown",
    "reboot",
    "bash",
    "sh",
    "curl",
    "cat",
    "chmod",
)
_GLOB_CHARACTERS = frozenset("*?[")
_NO_ASSIGNMENTS = nullcontext()
_REDIRECT_NODES = ("file_redirect", "herestring_redirect", "heredoc_redirect")


class CallContext(Protocol):
    programs: list[ProgramCall]
    path_effects: list[PathEffect]
    hazards: list[FoundHazard]
    shell: ShellState
    words: WordExpander
    concurrency: ConcurrencyTracker
    limits: AnalysisLimits

    def walk_nested_script(self, script: str, *, part: str, inline: bool = False) -> str: ...
    def add_hazard(self, sight: Hazard, part: str) -> None: ...
    def expand_heredoc(self, text: str) -> str: ...
    def change_directory(self, folder: str) -> None: ...
    def call_function(self, name: str, arguments: tuple[str, ...] | None, stdin: str) -> str: ...


class _CommandParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a command is made of."""

    assignments: list["Node"]
    redirects: list["Node"]
    words: list["Node"]
    literal_name: str  # its name, as it stands there


def _split_command(node: "Node") -> _CommandParts:
    parts = _CommandParts(assignments=[], redirects=[], words=[], literal_name=_literal_name(node))
    for child in node.children:
        if child.type == "variable_assignment":
            parts.assignments.append(child)
        elif child.type in _REDIRECT_NODES:
            parts.redirects.append(child)
        elif child.type != "$":
            parts.words.append(child)
    return parts


def _literal_name(node: "Node") -> str:
    name = node.child_by_field_name("name")
    return "" if name is None else (name.text or b"").decode(errors="replace")


class CommandCalls:
    def __init__(self, context: CallContext, assignments: Assignments) -> None:
        self._context = context
        self._assignments = assignments

    def command(self, node: "Node", stdin: str) -> str:
        """A command as the grammar has it; what it prints."""
        parts = _split_command(node)
        words = [word for child in parts.words for word in self._context.words.fields(child)]
        if not words:
            for child in parts.assignments:
                self._assignments.assign(child)
            return apply_redirections(self._context, parts.redirects, stdin).store_output(
                self._context, "", bodiless=True
            )
        if parts.literal_name in ("$0", '"$0"') and self._context.concurrency.is_parallel:
            self._context.add_hazard(Hazard.FORK_BOMB, (node.text or b"").decode(errors="replace"))
        with (
            self._assignments.for_one_command(parts.assignments)
            if parts.assignments
            else _NO_ASSIGNMENTS
        ):
            work = apply_redirections(self._context, parts.redirects, stdin)
            out = self.call(words, work.stdin, literal_name=parts.literal_name)
            return work.store_output(self._context, out, bodiless=False)

    def call(self, words: Sequence[str], stdin: str, *, literal_name: str = "") -> str:
        """A program, function or builtin with its arguments; what it prints."""
        with self._context.limits:
            return self._call(words, stdin, literal_name)

    def _call(self, words: Sequence[str], stdin: str, literal_name: str) -> str:
        head, args = words[0], tuple(words[1:])
        shell = self._context.shell
        if head in shell.functions:
            return self._context.call_function(head, args, stdin)
        if head in shell.aliases:
            expanded = shell.aliases.pop(head)
            return self._context.walk_nested_script(" ".join((expanded, *args)), part=head)
        run = ProgramCall(
            program=_program_name(head), args=args, paths=shell.paths, stdin=stdin, called_as=head
        )
        self._check_program_name(run, literal_name)
        self._context.programs.append(run)
        for place in shell.alternative_paths:
            self._context.programs.append(msgspec.structs.replace(run, paths=place))
        apply_builtin(run, self._context)
        inner = list(nested_in(run, shell))
        outs = [self._analyse_nested(one, run) for one in inner]
        if not inner or run.program in ALSO_PRINTING:
            outs.append(predict_output(run, shell))
        return "\n".join(outs)

    def _check_program_name(self, run: ProgramCall, literal_name: str) -> None:
        name = run.called_as.rpartition("/")[2]
        if NETWORK_DATA in name:
            self._context.add_hazard(Hazard.NETWORK_CODE, literal_name)
        if DECODED in name:
            self._context.add_hazard(Hazard.HIDDEN_CODE, literal_name)
        if (UNKNOWN in name or FILE_CONTENT in name) and not _CUSTOMARY_VARIABLES.fullmatch(
            literal_name
        ):
            self._context.add_hazard(
                Hazard.UNKNOWN_CODE, f"{literal_name or name} {' '.join(run.args)}"
            )
        if len(name) > 1 and not _GLOB_CHARACTERS.isdisjoint(name) and name != "[[":
            self._match_globbed_program(name, run)

    def _match_globbed_program(self, name: str, run: ProgramCall) -> None:
        """`/bin/r?` is whatever it matches."""
        for program in _MATCHED_PROGRAMS:
            if fnmatchcase(program, name):
                self._context.add_hazard(Hazard.HIDDEN_PROGRAM, run.excerpt)
                self.call((program, *run.args), run.stdin)

    def _analyse_nested(self, inner: Nested, run: ProgramCall) -> str:
        match inner:
            case NestedCommand():
                return self._run_nested_command(inner, run)
            case NestedScript():
                return self._run_nested_script(inner)
            case NestedCode():
                return self._inspect_nested_code(inner, run)

    def _run_nested_command(self, inner: NestedCommand, run: ProgramCall) -> str:
        if not inner.words:
            return ""
        shell = self._context.shell
        before, shell.paths = shell.paths, _with_cwd(shell.paths, inner.cwd)
        out = self.call(inner.words, inner.stdin or run.stdin)
        shell.paths = before
        return out

    def _run_nested_script(self, inner: NestedScript) -> str:
        outer = self._context.shell
        if not inner.same_shell:
            self._context.shell = outer.copy()
            self._context.shell.aliases = {}
            self._context.shell.arguments = inner.arguments
            if inner.arguments is None and inner.cwd:
                self._context.shell.variables.pop("PWD", None)
        self._context.shell.paths = _with_cwd(self._context.shell.paths, inner.cwd)
        out = self._context.walk_nested_script(inner.text, part=inner.part, inline=inner.inline)
        self._context.shell = outer
        return out

    def _inspect_nested_code(self, inner: NestedCode, run: ProgramCall) -> str:
        if NETWORK_DATA in inner.text:
            self._context.add_hazard(Hazard.NETWORK_CODE, inner.part)
        if DECODED in inner.text:
            self._context.add_hazard(Hazard.HIDDEN_CODE, inner.part)
        if not strip_markers(inner.text).strip() and UNKNOWN in inner.text:
            self._context.add_hazard(Hazard.UNKNOWN_CODE, inner.part)
        for found in inspect_code(strip_markers(inner.text), home=self._context.shell.paths.home):
            if isinstance(found, Hazard):
                self._context.add_hazard(found, inner.part)
            else:
                self._analyse_nested(found, run)
        return UNKNOWN


def _program_name(head: str) -> str:
    name = strip_markers(head.rpartition("/")[2])
    return name or strip_markers(head) or UNKNOWN


def _with_cwd(place: PathResolver, cwd: str) -> PathResolver:
    return msgspec.structs.replace(place, cwd=cwd) if cwd else place
