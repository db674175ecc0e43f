"""Calling: what becomes of one command when its words are known."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.tools.shell.assigning import Assignments
from holdfast.tools.shell.builtins import carry_out
from holdfast.tools.shell.code import look_at_code
from holdfast.tools.shell.hatches import HATCHED
from holdfast.tools.shell.inner import Argv, Code, Inner, Script
from holdfast.tools.shell.limits import Limits
from holdfast.tools.shell.markers import CODED, NET, READ, UNKNOWN, bare
from holdfast.tools.shell.multiplying import Multiplying
from holdfast.tools.shell.outputs import output_of
from holdfast.tools.shell.paths import Place
from holdfast.tools.shell.redirecting import redirect
from holdfast.tools.shell.run import Run, Seen, Sight, Touch
from holdfast.tools.shell.shell import Shell
from holdfast.tools.shell.vehicles import inside
from holdfast.tools.shell.words import Words

if TYPE_CHECKING:
    from tree_sitter import Node

# Programs that people name by a variable; what such a one holds is no secret of this command.
_CUSTOMARY = re.compile(
    r'"?\$\{?(CC|CXX|LD|AR|PYTHON\d?|PY|PIP|NODE|NPM|EDITOR|VISUAL|PAGER|MAKE|CMAKE|GO|CARGO'
    r'|RUSTC|JAVA|GRADLE|MVN|RUBY|PHP|BROWSER|GIT|DOCKER|COMPOSE|KUBECTL|SHELL|BASH)\}?"?'
)
_HIDEABLE = ("rm", "dd", "mkfs", "sudo", "shutdown", "reboot", "bash", "sh", "curl", "cat", "chmod")
_GLOB = frozenset("*?[")
_NOTHING = nullcontext()
_REDIRECTS = ("file_redirect", "herestring_redirect", "heredoc_redirect")


class Reader(Protocol):
    runs: list[Run]
    touches: list[Touch]
    seen: list[Seen]
    shell: Shell
    words: Words
    multiplying: Multiplying
    limits: Limits

    def read_code(self, script: str, *, part: str, given: bool = False) -> str: ...
    def see(self, sight: Sight, part: str) -> None: ...
    def expand(self, text: str) -> str: ...
    def move(self, folder: str) -> None: ...
    def call_function(self, name: str, arguments: tuple[str, ...] | None, stdin: str) -> str: ...


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a command is made of."""

    assignments: list["Node"]
    redirects: list["Node"]
    words: list["Node"]
    written: str  # its name, as it stands there


def _parts(node: "Node") -> _Parts:
    parts = _Parts(assignments=[], redirects=[], words=[], written=_written(node))
    for child in node.children:
        if child.type == "variable_assignment":
            parts.assignments.append(child)
        elif child.type in _REDIRECTS:
            parts.redirects.append(child)
        elif child.type != "$":
            parts.words.append(child)
    return parts


def _written(node: "Node") -> str:
    name = node.child_by_field_name("name")
    return "" if name is None else (name.text or b"").decode(errors="replace")


class Calls:
    def __init__(self, reader: Reader, assignments: Assignments) -> None:
        self._reader = reader
        self._assignments = assignments

    def command(self, node: "Node", stdin: str) -> str:
        """A command as the grammar has it; what it prints."""
        parts = _parts(node)
        words = [word for child in parts.words for word in self._reader.words.fields(child)]
        if not words:
            for child in parts.assignments:
                self._assignments.assign(child)
            return redirect(self._reader, parts.redirects, stdin).keep(
                self._reader, "", bodiless=True
            )
        if parts.written in ("$0", '"$0"') and self._reader.multiplying.runs_beside:
            self._reader.see(Sight.FORK_BOMB, (node.text or b"").decode(errors="replace"))
        with self._assignments.alone(parts.assignments) if parts.assignments else _NOTHING:
            work = redirect(self._reader, parts.redirects, stdin)
            out = self.call(words, work.stdin, written=parts.written)
            return work.keep(self._reader, out, bodiless=False)

    def call(self, words: Sequence[str], stdin: str, *, written: str = "") -> str:
        """A program, function or builtin with its arguments; what it prints."""
        with self._reader.limits:
            return self._call(words, stdin, written)

    def _call(self, words: Sequence[str], stdin: str, written: str) -> str:
        head, args = words[0], tuple(words[1:])
        shell = self._reader.shell
        if head in shell.functions:
            return self._reader.call_function(head, args, stdin)
        if head in shell.aliases:
            expanded = shell.aliases.pop(head)
            return self._reader.read_code(" ".join((expanded, *args)), part=head)
        run = Run(program=_program(head), args=args, place=shell.place, stdin=stdin, called=head)
        self._notice_program(run, written)
        self._reader.runs.append(run)
        for place in shell.elsewhere:
            self._reader.runs.append(msgspec.structs.replace(run, place=place))
        carry_out(run, self._reader)
        inner = list(inside(run, shell))
        outs = [self._enter(one, run) for one in inner]
        if not inner or run.program in HATCHED:
            outs.append(output_of(run, shell))
        return "\n".join(outs)

    def _notice_program(self, run: Run, written: str) -> None:
        name = run.called.rpartition("/")[2]
        if NET in name:
            self._reader.see(Sight.NETWORK_CODE, written)
        if CODED in name:
            self._reader.see(Sight.HIDDEN_CODE, written)
        if (UNKNOWN in name or READ in name) and not _CUSTOMARY.fullmatch(written):
            self._reader.see(Sight.UNKNOWN_CODE, f"{written or name} {' '.join(run.args)}")
        if len(name) > 1 and not _GLOB.isdisjoint(name) and name != "[[":
            self._match_program(name, run)

    def _match_program(self, name: str, run: Run) -> None:
        """`/bin/r?` is whatever it matches."""
        for program in _HIDEABLE:
            if fnmatchcase(program, name):
                self._reader.see(Sight.HIDDEN_PROGRAM, run.said)
                self.call((program, *run.args), run.stdin)

    def _enter(self, inner: Inner, run: Run) -> str:
        match inner:
            case Argv():
                return self._apart(inner, run)
            case Script():
                return self._read_script(inner)
            case Code():
                return self._read_other(inner, run)

    def _apart(self, inner: Argv, run: Run) -> str:
        if not inner.words:
            return ""
        shell = self._reader.shell
        before, shell.place = shell.place, _moved(shell.place, inner.cwd)
        out = self.call(inner.words, inner.stdin or run.stdin)
        shell.place = before
        return out

    def _read_script(self, inner: Script) -> str:
        outer = self._reader.shell
        if not inner.same_shell:
            self._reader.shell = outer.copy()
            self._reader.shell.aliases = {}
            self._reader.shell.arguments = inner.arguments
            if inner.arguments is None and inner.cwd:
                self._reader.shell.variables.pop("PWD", None)
        self._reader.shell.place = _moved(self._reader.shell.place, inner.cwd)
        out = self._reader.read_code(inner.text, part=inner.part, given=inner.given)
        self._reader.shell = outer
        return out

    def _read_other(self, inner: Code, run: Run) -> str:
        if NET in inner.text:
            self._reader.see(Sight.NETWORK_CODE, inner.part)
        if CODED in inner.text:
            self._reader.see(Sight.HIDDEN_CODE, inner.part)
        if not bare(inner.text).strip() and UNKNOWN in inner.text:
            self._reader.see(Sight.UNKNOWN_CODE, inner.part)
        for found in look_at_code(bare(inner.text), home=self._reader.shell.place.home):
            if isinstance(found, Sight):
                self._reader.see(found, inner.part)
            else:
                self._enter(found, run)
        return UNKNOWN


def _program(head: str) -> str:
    name = bare(head.rpartition("/")[2])
    return name or bare(head) or UNKNOWN


def _moved(place: Place, cwd: str) -> Place:
    return msgspec.structs.replace(place, cwd=cwd) if cwd else place
