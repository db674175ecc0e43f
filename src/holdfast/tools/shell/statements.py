"""Statements: pipes, lists, branches and loops, walked in the order in which a shell would."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from holdfast.tools.shell.assigning import Assignments
from holdfast.tools.shell.calling import Calls
from holdfast.tools.shell.limits import MOST_ROUNDS
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.multiplying import Multiplying, spawns_forever
from holdfast.tools.shell.redirecting import Reader, redirect
from holdfast.tools.shell.run import Sight

if TYPE_CHECKING:
    from tree_sitter import Node

_SURE = _ALONE = contextlib.nullcontext()
_SEQUENCES = ("program", "compound_statement", "do_group", "negated_command", "ERROR")
_BRANCHES = ("if_statement", "case_statement", "elif_clause", "else_clause", "case_item")
_WORDS = ("word", "string", "raw_string", "concatenation")


class Walker(Reader, Protocol):
    """Who reads, and walks what stands inside a statement."""

    multiplying: Multiplying

    def statement(self, node: "Node", stdin: str) -> str: ...
    def see(self, sight: Sight, part: str) -> None: ...


class Statements:
    def __init__(self, walker: Walker, calls: Calls, assignments: Assignments) -> None:
        self._walker = walker
        self._assignments = assignments
        self._walks: dict[str, Callable[[Node, str], str]] = {
            "command": calls.command,
            "pipeline": self._pipe,
            "redirected_statement": self._redirected,
            "variable_assignment": self._assign,
            "variable_assignments": self._assign,
            "declaration_command": self._assign,
            "subshell": self._apart,
            "function_definition": self._define,
            "list": self._list,
            "for_statement": self._for,
            "while_statement": self._while,
            "c_style_for_statement": self._while,
            **dict.fromkeys(_WORDS, self._word),
            **dict.fromkeys(_BRANCHES, self._branches),
            **dict.fromkeys(_SEQUENCES, self._sequence),
        }

    def walk(self, node: "Node", stdin: str) -> str:
        """Whatever may stand where a command does; what it prints."""
        walk = self._walks.get(node.type)
        if walk is not None:
            return walk(node, stdin)
        self._walker.words.look_inside(node)
        return ""

    def _assign(self, node: "Node", stdin: str) -> str:
        self._assignments.assign(node)
        return ""

    def _word(self, node: "Node", stdin: str) -> str:
        self._walker.words.text(node)
        return ""

    def _pipe(self, node: "Node", stdin: str) -> str:
        return self._pipeline(list(node.named_children), stdin)

    def _branches(self, node: "Node", stdin: str) -> str:
        with self._walker.shell.maybe(folder=True):
            return self._sequence(node, stdin)

    def _sequence(self, node: "Node", stdin: str) -> str:
        out = []
        for child in node.children:
            if not child.is_named:
                continue
            following = child.next_sibling
            spawned = following is not None and following.type == "&"
            unsure = self._walker.shell.maybe(folder=True) if child.type == "list" else _SURE
            with self._walker.multiplying.beside() if spawned else _ALONE, unsure:
                out.append(self._walker.statement(child, stdin))
        return "\n".join(filter(None, out))

    def _list(self, node: "Node", stdin: str) -> str:
        left, *rest = [child for child in node.children if child.is_named]
        out = self._walker.statement(left, stdin)
        either = any(child.type == "||" for child in node.children)
        for child in rest:
            with self._walker.shell.maybe(folder=either):
                out += self._walker.statement(child, stdin)
        return out

    def _pipeline(self, stages: list["Node"], stdin: str) -> str:
        outer = self._walker.shell
        with self._walker.multiplying.beside():
            for stage in stages:
                self._walker.shell = outer.copy()
                stdin = self._walker.statement(stage, stdin)
        self._walker.shell = outer
        return stdin

    def _apart(self, node: "Node", stdin: str) -> str:
        outer, self._walker.shell = self._walker.shell, self._walker.shell.copy()
        out = self._sequence(node, stdin)
        self._walker.shell = outer
        return out

    def _redirected(self, node: "Node", stdin: str) -> str:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        work = redirect(self._walker, redirects, stdin)
        out = self._walker.statement(body, work.stdin) if body is not None else ""
        out = work.keep(self._walker, out, bodiless=body is None)
        if work.piped:
            out = self._pipeline(work.piped, out)
        for after in work.after:
            out += self._walker.statement(after, stdin)
        return out

    def _for(self, node: "Node", stdin: str) -> str:
        name = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        values = [
            word
            for child in node.children_by_field_name("value")
            for word in self._walker.words.fields(child)
        ]
        out = ""
        for value in values[:MOST_ROUNDS] or [UNKNOWN]:
            if name is not None and body is not None:
                self._walker.shell.variables[(name.text or b"").decode(errors="replace")] = value
                out = self._walker.statement(body, stdin)
        return out

    def _while(self, node: "Node", stdin: str) -> str:
        if spawns_forever(node):
            self._walker.see(Sight.FORK_BOMB, (node.text or b"").decode(errors="replace"))
        return self._sequence(node, stdin)

    def _define(self, node: "Node", stdin: str) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._walker.shell.functions[self._walker.words.text(name)] = body
        return ""
