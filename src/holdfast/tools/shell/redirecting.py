"""Redirections: where a command's input comes from, and where its output is kept."""

from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.tools.shell.markers import FILE_CONTENT, UNKNOWN
from holdfast.tools.shell.run import FoundHazard, Hazard, PathAction, PathEffect, to_excerpt
from holdfast.tools.shell.shell import ShellState
from holdfast.tools.shell.words import WordExpander

if TYPE_CHECKING:
    from tree_sitter import Node

_OUTPUT_OPERATORS = (">", ">>", "&>", "&>>", ">|", ">&")
_NETWORK_PATHS = ("/dev/tcp/", "/dev/udp/")


class RedirectionContext(Protocol):
    path_effects: list[PathEffect]
    hazards: list[FoundHazard]
    words: WordExpander
    shell: ShellState

    def expand_heredoc(self, text: str) -> str: ...


class Redirections(msgspec.Struct):
    """What the redirections of one statement come to."""

    stdin: str
    output_paths: list[str] = []
    appends: bool = False
    piped: list["Node"] = []  # `cat <<X | sh`: the grammar puts what follows inside
    after: list["Node"] = []

    def store_output(self, context: RedirectionContext, out: str, *, bodiless: bool) -> str:
        """Remember what files now hold; what is left for a pipe."""
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
        sight = Hazard.REMOTE_SHELL
        context.hazards.append(
            FoundHazard(hazard=sight, part=to_excerpt((node.text or b"").decode()))
        )
    elif path.isdecimal() and "&" in operator:
        return
    elif operator in _OUTPUT_OPERATORS:
        _add_path_effect(context, PathAction.WRITE, path)
        if number is None or number.text == b"1":
            done.output_paths.append(path)
            done.appends = operator.endswith(">>")
    elif operator == "<":
        _add_path_effect(context, PathAction.READ, path)
        held = context.shell.files.get(context.shell.paths.resolve(path), FILE_CONTENT)
        done.stdin = "" if path == "/dev/null" else held


def _add_path_effect(context: RedirectionContext, deed: PathAction, path: str) -> None:
    context.path_effects.append(PathEffect(action=deed, path=path, paths=context.shell.paths))


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
    """The lines of a here-document, by where they stand: the grammar takes a first one that
    begins with a backslash for words of the command."""
    text = node.text or b""
    end = next((child for child in node.children if child.type == "heredoc_end"), None)
    if end is not None:
        text = text[: end.start_byte - node.start_byte]
    return text.partition(b"\n")[2].decode(errors="replace")
