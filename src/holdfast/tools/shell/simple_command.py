"""Simple commands (in bash's sense): assignments, redirections, builtins, and the call of one
program with known words."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.tools.shell.environment import is_special, variable_findings
from holdfast.tools.shell.escapes import LIBRARY_OPTIONS, loads_library
from holdfast.tools.shell.expansion import WordExpander
from holdfast.tools.shell.interpreters import SHELLS, inspect_code, reads_terminal
from holdfast.tools.shell.invocation import (
    FoundHazard,
    Hazard,
    Nested,
    NestedCode,
    NestedCommand,
    NestedScript,
    PathAction,
    PathEffect,
    ProgramCall,
    to_excerpt,
)
from holdfast.tools.shell.markers import DECODED, FILE_CONTENT, NETWORK_DATA, UNKNOWN, strip_markers
from holdfast.tools.shell.nested_commands import (
    ALSO_PRINTING,
    REMOTE_CWD,
    TRANSPARENT,
    nested_in,
)
from holdfast.tools.shell.outputs import predict_output, printf_output
from holdfast.tools.shell.parser import AnalysisLimits, node_text
from holdfast.tools.shell.paths import PathResolver
from holdfast.tools.shell.state import ConcurrencyTracker, ShellState

if TYPE_CHECKING:
    from tree_sitter import Node


_MAX_VALUE = 100_000  # a value that doubles itself would use up the memory
_NAMEREF = re.compile(rb"(?:declare|typeset|local)\s+-[a-zA-Z]*n")


class AssignmentContext(Protocol):
    programs: list[ProgramCall]
    shell: ShellState
    words: WordExpander

    def walk_nested_script(self, script: str, *, part: str, inline: bool = False) -> str: ...
    def add_hazard(self, hazard: Hazard, part: str) -> None: ...


class Assignments:
    def __init__(self, context: AssignmentContext) -> None:
        self._context = context

    def assign(self, node: "Node") -> None:
        """Applies assignments: `x=…`, alone, several at once, or after `export`."""
        if node.type == "variable_assignment":
            self._assign_one(node)
            return
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign_one(child)
                if _NAMEREF.match(node.text or b""):
                    self._follow_nameref(_variable_name(child))
            elif child.child_count:
                self._context.words.text(child)

    @contextmanager
    def for_one_command(self, nodes: list["Node"], program: str) -> Iterator[None]:
        """Sets the variables of `x=… command` for this command, and restores them afterwards."""
        variables = self._context.shell.variables
        before = {name: variables.get(name) for name in map(_variable_name, nodes)}
        for node in nodes:
            self._assign_one(node, program)
        yield
        for name, value in before.items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value

    def _assign_one(self, node: "Node", program: str = "") -> None:
        name, value = _variable_name(node), node.child_by_field_name("value")
        if not name:
            return
        text = "" if value is None else self._value(value)
        if b"+=" in (node.text or b"")[: len(name.encode()) + 2]:
            text = self._context.shell.variables.get(name, UNKNOWN) + text
        if len(text) > _MAX_VALUE:
            text = UNKNOWN
        self._context.shell.variables[name] = text
        if is_special(name):
            self._check_special(name, text, program)

    def _follow_nameref(self, name: str) -> None:
        """A nameref gets the current value of the variable that it names, if known."""
        variables = self._context.shell.variables
        value = self._context.shell.variable(variables.get(name, ""))
        variables[name] = UNKNOWN if value is None else value

    def _value(self, node: "Node") -> str:
        if node.type != "array":
            return self._context.words.text(node)
        return " ".join(
            word for child in node.named_children for word in self._context.words.fields(child)
        )

    def _check_special(self, name: str, value: str, program: str) -> None:
        """Checks variables whose values are commands that other programs run, or libraries that
        they load."""
        part = f"{name}={value}"
        for found in variable_findings(name, value, self._context.shell.paths, program):
            if isinstance(found, Hazard):
                self._context.add_hazard(found, part)
                continue
            before = len(self._context.programs)
            outer, self._context.shell = self._context.shell, self._context.shell.copy()
            self._context.walk_nested_script(found.text, part=part)
            self._context.shell = outer
            for hazard in escapes(islice(self._context.programs, before, None)):
                self._context.add_hazard(hazard, part)


def _variable_name(node: "Node") -> str:
    name = node.child_by_field_name("name")
    return "" if name is None else node_text(name)


_TEMPORARY_FOLDERS = ("/tmp/", "/var/tmp/", "/dev/shm/", "/private/tmp/")


def escapes(started: Iterable[ProgramCall]) -> Iterator[Hazard]:
    """The hazards of programs that another one starts: a shell that reads from a terminal, and a
    file where others may have put it."""
    for run in started:
        if run.program in SHELLS and reads_terminal(run):
            yield Hazard.ESCAPED_SHELL
        elif run.called_as.startswith(_TEMPORARY_FOLDERS):
            yield Hazard.FOREIGN_PROGRAM


_OUTPUT_OPERATORS = (">", ">>", "&>", "&>>", ">|", ">&")
_NETWORK_PATHS = ("/dev/tcp/", "/dev/udp/")


class RedirectionContext(Protocol):
    path_effects: list[PathEffect]
    hazards: list[FoundHazard]
    words: WordExpander
    shell: ShellState

    def expand_heredoc(self, text: str) -> str: ...


class Redirections(msgspec.Struct):
    """The effect of the redirections of one statement."""

    stdin: str
    output_paths: list[str] = []
    appends: bool = False
    piped: list["Node"] = []  # `cat <<X | sh`: the parser puts the rest of the pipe inside
    after: list["Node"] = []

    def store_output(self, context: RedirectionContext, out: str, *, bodiless: bool) -> str:
        """Record the contents of written files; returns what is left for a pipe."""
        for path in self.output_paths:
            full = context.shell.paths.resolve(path)
            before = context.shell.files.get(full, "") if self.appends else ""
            context.shell.files[full] = before + (out or ("" if bodiless else UNKNOWN)) + "\n"
        return "" if self.output_paths else out


def apply_redirections(
    context: RedirectionContext, nodes: list["Node"], stdin: str
) -> Redirections:
    done = Redirections(stdin=stdin, output_paths=[], piped=[], after=[])
    for node in nodes:
        match node.type:
            case "file_redirect":
                _file_redirect(context, node, done)
            case "herestring_redirect":
                done.stdin = context.words.text(node.named_children[-1]) + "\n"
            case "heredoc_redirect":
                _heredoc(context, node, done)
    return done


def _file_redirect(context: RedirectionContext, node: "Node", done: Redirections) -> None:
    target = node.child_by_field_name("destination")
    if target is None:
        return
    path = context.words.text(target)
    operator = next((child.type for child in node.children if not child.is_named), "")
    number = node.child_by_field_name("descriptor")
    if path.startswith(_NETWORK_PATHS):
        hazard = Hazard.REMOTE_SHELL
        context.hazards.append(FoundHazard(hazard=hazard, part=to_excerpt(node_text(node))))
    elif path.isdecimal() and "&" in operator:
        return
    elif operator in _OUTPUT_OPERATORS:
        _add_path_effect(context, PathAction.WRITE, path)
        if number is None or number.text == b"1":
            done.output_paths.append(path)
            done.appends = operator.endswith(">>")
    elif operator == "<":
        _add_path_effect(context, PathAction.READ, path)
        content = context.shell.files.get(context.shell.paths.resolve(path), FILE_CONTENT)
        done.stdin = "" if path == "/dev/null" else content


def _add_path_effect(context: RedirectionContext, action: PathAction, path: str) -> None:
    context.path_effects.append(PathEffect(action=action, path=path, paths=context.shell.paths))


def _heredoc(context: RedirectionContext, node: "Node", done: Redirections) -> None:
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    quoted = start is not None and (start.text or b"")[:1] in (b"'", b'"', b"\\")
    text = _heredoc_body(node)
    done.stdin = text if quoted else context.expand_heredoc(text)
    for child in node.children:
        match child.type:
            case "file_redirect":
                _file_redirect(context, child, done)
            case "pipeline":
                done.piped = list(child.named_children)
            case "command" | "list" | "redirected_statement" | "subshell" | "compound_statement":
                done.after.append(child)


def _heredoc_body(node: "Node") -> str:
    """The lines of a here-document, by their position: the parser takes a first line that begins
    with a backslash for words of the command."""
    text = node.text or b""
    end = next((child for child in node.children if child.type == "heredoc_end"), None)
    if end is not None:
        text = text[: end.start_byte - node.start_byte]
    return text.partition(b"\n")[2].decode(errors="replace")


class BuiltinContext(Protocol):
    shell: ShellState

    def change_directory(self, folder: str) -> None: ...


def apply_builtin(run: ProgramCall, context: BuiltinContext) -> None:
    """Apply the effect of a builtin to the shell state; other programs have none."""
    change = _BUILTINS.get(run.program)
    if change is not None:
        change(run, context)


def _cd(run: ProgramCall, context: BuiltinContext) -> None:
    context.change_directory(_cd_target(run))


def _popd(run: ProgramCall, context: BuiltinContext) -> None:
    context.change_directory(UNKNOWN)


def _cd_target(run: ProgramCall) -> str:
    given = [word for word in run.args if not (word.startswith("-") and len(word) > 1)]
    if not given:
        return run.paths.home
    return UNKNOWN if given[0] == "-" else run.paths.resolve(given[0])


def _alias(run: ProgramCall, context: BuiltinContext) -> None:
    for word in run.args:
        name, equals, text = word.partition("=")
        if equals:
            context.shell.aliases[name] = text


def _read(run: ProgramCall, context: BuiltinContext) -> None:
    names = [word for word in run.args if not word.startswith("-")] or ["REPLY"]
    known = run.stdin.strip("\n") if strip_markers(run.stdin).strip() else UNKNOWN
    for name in names:
        context.shell.variables[name] = known


def _printf(run: ProgramCall, context: BuiltinContext) -> None:
    if run.args[:1] == ("-v",) and len(run.args) > 2:
        context.shell.variables[run.args[1]] = printf_output(run.args[2:])


def _unset(run: ProgramCall, context: BuiltinContext) -> None:
    for name in run.args:
        context.shell.variables.pop(name, None)


def _set(run: ProgramCall, context: BuiltinContext) -> None:
    if run.args[:1] == ("--",):
        context.shell.arguments = run.args[1:]


def _assign(run: ProgramCall, context: BuiltinContext) -> None:
    for word in run.args:
        name, equals, value = word.partition("=")
        if equals:
            context.shell.variables[name] = value


_BUILTINS: dict[str, Callable[[ProgramCall, BuiltinContext], None]] = {
    "cd": _cd,
    "pushd": _cd,
    "chdir": _cd,
    "popd": _popd,
    "alias": _alias,
    "read": _read,
    "mapfile": _read,
    "readarray": _read,
    "printf": _printf,
    "unset": _unset,
    "unalias": _unset,
    "set": _set,
    "declare": _assign,
    "typeset": _assign,
    "local": _assign,
    "export": _assign,
    "readonly": _assign,
    "let": _assign,
}


# Programs that scripts usually name by a variable: not suspicious.
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
    def add_hazard(self, hazard: Hazard, part: str) -> None: ...
    def expand_heredoc(self, text: str) -> str: ...
    def change_directory(self, folder: str) -> None: ...
    def call_function(self, name: str, arguments: tuple[str, ...] | None, stdin: str) -> str: ...


class _CommandParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a command."""

    assignments: list["Node"]
    redirects: list["Node"]
    words: list["Node"]
    literal_name: str  # its name as it is written


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
    return "" if name is None else node_text(name)


class CommandCalls:
    def __init__(self, context: CallContext, assignments: Assignments) -> None:
        self._context = context
        self._assignments = assignments

    def command(self, node: "Node", stdin: str) -> str:
        """Walk a command node and return its output, as far as it is known."""
        parts = _split_command(node)
        words = [word for child in parts.words for word in self._context.words.fields(child)]
        if not words:
            for child in parts.assignments:
                self._assignments.assign(child)
            return apply_redirections(self._context, parts.redirects, stdin).store_output(
                self._context, "", bodiless=True
            )
        if parts.literal_name in ("$0", '"$0"') and self._context.concurrency.is_parallel:
            self._context.add_hazard(Hazard.FORK_BOMB, node_text(node))
        with (
            self._assignments.for_one_command(parts.assignments, words[0])
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
        if run.program in LIBRARY_OPTIONS and loads_library(run):
            self._context.add_hazard(Hazard.FOREIGN_LIBRARY, run.excerpt)
        for path in shell.alternative_paths:
            self._context.programs.append(msgspec.structs.replace(run, paths=path))
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
        """Finds the program that a pattern such as `/bin/r?` matches."""
        for program in _MATCHED_PROGRAMS:
            if fnmatchcase(program, name):
                self._context.add_hazard(Hazard.HIDDEN_PROGRAM, run.excerpt)
                self.call((program, *run.args), run.stdin)

    def _analyse_nested(self, inner: Nested, run: ProgramCall) -> str:
        if run.program in TRANSPARENT or (
            isinstance(inner, NestedScript) and inner.cwd == REMOTE_CWD
        ):
            return self._analyse_one(inner, run)
        before = len(self._context.programs)
        out = self._analyse_one(inner, run)
        for hazard in escapes(islice(self._context.programs, before, None)):
            self._context.add_hazard(hazard, run.excerpt)
        return out

    def _analyse_one(self, inner: Nested, run: ProgramCall) -> str:
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
        shell = self._context.shell
        code = strip_markers(inner.text)
        for found in inspect_code(code, home=shell.paths.home, variables=shell.variables):
            if isinstance(found, Hazard):
                self._context.add_hazard(found, inner.part)
            else:
                self._analyse_one(found, run)
        return UNKNOWN


def _program_name(head: str) -> str:
    name = strip_markers(head.rpartition("/")[2])
    return name or strip_markers(head) or UNKNOWN


def _with_cwd(path: PathResolver, cwd: str) -> PathResolver:
    return msgspec.structs.replace(path, cwd=cwd) if cwd else path
