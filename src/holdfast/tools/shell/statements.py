"""Statements: pipes, lists, branches and loops, walked in the order in which a shell would."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from holdfast.tools.shell.assigning import Assignments
from holdfast.tools.shell.calling import CommandCalls
from holdfast.tools.shell.limits import MAX_ITERATIONS
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.multiplying import ConcurrencyTracker, spawns_forever
from holdfast.tools.shell.redirecting import RedirectionContext, apply_redirections
from holdfast.tools.shell.run import Hazard

if TYPE_CHECKING:
    from tree_sitter import Node

_CERTAIN = _SEQUENTIAL = contextlib.nullcontext()
_SEQUENCE_NODES = ("program", "compound_statement", "do_group", "negated_command", "ERROR")
_BRANCH_NODES = ("if_statement", "case_statement", "elif_clause", "else_clause", "case_item")
_WORD_NODES = ("word", "string", "raw_string", "concatenation")


class StatementContext(RedirectionContext, Protocol):
    """Who reads, and walks what stands inside a statement."""

    concurrency: ConcurrencyTracker

    def statement(self, node: "Node", stdin: str) -> str: ...
    def add_hazard(self, sight: Hazard, part: str) -> None: ...


class StatementWalker:
    def __init__(
        self, context: StatementContext, calls: CommandCalls, assignments: Assignments
    ) -> None:
        self._context = context
        self._assignments = assignments
        self._handlers: dict[str, Callable[[Node, str], str]] = {
            "command": calls.command,
            "pipeline": self._pipe,
            "redirected_statement": self._redirected,
            "variable_assignment": self._assign,
            "variable_assignments": self._assign,
            "declaration_command": self._assign,
            "subshell": self._subshell,
            "function_definition": self._define,
            "list": self._list,
            "for_statement": self._for,
            "while_statement": self._while,
            "c_style_for_statement": self._while,
            **dict.fromkeys(_WORD_NODES, self._word),
            **dict.fromkeys(_BRANCH_NODES, self._branches),
            **dict.fromkeys(_SEQUENCE_NODES, self._sequence),
        }

    def walk(self, node: "Node", stdin: str) -> str:
        """Whatever may stand where a command does; what it prints."""
        walk = self._handlers.get(node.type)
        if walk is not None:
            return walk(node, stdin)
        self._context.words.run_substitutions(node)
        return ""

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
                self._context.shell.variables[(name.text or b"").decode(errors="replace")] = value
                out = self._context.statement(body, stdin)
        return out

    def _while(self, node: "Node", stdin: str) -> str:
        if spawns_forever(node):
            self._context.add_hazard(Hazard.FORK_BOMB, (node.text or b"").decode(errors="replace"))
        return self._sequence(node, stdin)

    def _define(self, node: "Node", stdin: str) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._context.shell.functions[self._context.words.text(name)] = body
        return ""
