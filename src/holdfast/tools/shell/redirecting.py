"""Redirections: where a command's input comes from, and where its output is kept."""

from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.tools.shell.markers import READ, UNKNOWN
from holdfast.tools.shell.run import Deed, Seen, Sight, Touch, part_of
from holdfast.tools.shell.shell import Shell
from holdfast.tools.shell.words import Words

if TYPE_CHECKING:
    from tree_sitter import Node

_INTO = (">", ">>", "&>", "&>>", ">|", ">&")
_NETWORK = ("/dev/tcp/", "/dev/udp/")


class Reader(Protocol):
    touches: list[Touch]
    seen: list[Seen]
    words: Words
    shell: Shell

    def expand(self, text: str) -> str: ...


class Redirected(msgspec.Struct):
    """What the redirections of one statement come to."""

    stdin: str
    into: list[str] = []
    appends: bool = False
    piped: list["Node"] = []  # `cat <<X | sh`: the grammar puts what follows inside
    after: list["Node"] = []

    def keep(self, reader: Reader, out: str, *, bodiless: bool) -> str:
        """Remember what files now hold; what is left for a pipe."""
        for path in self.into:
            full = reader.shell.place.resolve(path)
            before = reader.shell.files.get(full, "") if self.appends else ""
            reader.shell.files[full] = before + (out or ("" if bodiless else UNKNOWN)) + "\n"
        return "" if self.into else out


def redirect(reader: Reader, nodes: list["Node"], stdin: str) -> Redirected:
    done = Redirected(stdin=stdin, into=[], piped=[], after=[])
    for node in nodes:
        match node.type:
            case "file_redirect":
                _file(reader, node, done)
            case "herestring_redirect":
                done.stdin = reader.words.text(node.named_children[-1]) + "\n"
            case "heredoc_redirect":
                _heredoc(reader, node, done)
    return done


def _file(reader: Reader, node: "Node", done: Redirected) -> None:
    target = node.child_by_field_name("destination")
    if target is None:
        return
    path = reader.words.text(target)
    operator = next((child.type for child in node.children if not child.is_named), "")
    number = node.child_by_field_name("descriptor")
    if path.startswith(_NETWORK):
        sight = Sight.REMOTE_SHELL
        reader.seen.append(Seen(sight=sight, part=part_of((node.text or b"").decode())))
    elif path.isdecimal() and "&" in operator:
        return
    elif operator in _INTO:
        _touch(reader, Deed.WRITE, path)
        if number is None or number.text == b"1":
            done.into.append(path)
            done.appends = operator.endswith(">>")
    elif operator == "<":
        _touch(reader, Deed.READ, path)
        held = reader.shell.files.get(reader.shell.place.resolve(path), READ)
        done.stdin = "" if path == "/dev/null" else held


def _touch(reader: Reader, deed: Deed, path: str) -> None:
    reader.touches.append(Touch(deed=deed, path=path, place=reader.shell.place))


def _heredoc(reader: Reader, node: "Node", done: Redirected) -> None:
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    quoted = start is not None and (start.text or b"")[:1] in (b"'", b'"', b"\\")
    text = _body(node)
    done.stdin = text if quoted else reader.expand(text)
    for child in node.children:
        match child.type:
            case "file_redirect":
                _file(reader, child, done)
            case "pipeline":
                done.piped = list(child.named_children)
            case "command" | "list" | "redirected_statement" | "subshell" | "compound_statement":
                done.after.append(child)


def _body(node: "Node") -> str:
    """The lines of a here-document, by where they stand: the grammar takes a first one that
    begins with a backslash for words of the command."""
    text = node.text or b""
    end = next((child for child in node.children if child.type == "heredoc_end"), None)
    if end is not None:
        text = text[: end.start_byte - node.start_byte]
    return text.partition(b"\n")[2].decode(errors="replace")
