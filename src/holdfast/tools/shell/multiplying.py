"""Multiplying: functions that run, what runs beside them, and loops that never stop starting."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_ALWAYS_TRUE = frozenset(
    ("true", ":", "/bin/true", "[ 1 ]", "[[ 1 ]]", "((1))", "(( 1 ))", "! false")
)
_PAUSES = ("sleep", "wait", "read", "inotifywait", "break", "exit")
_MAX_DEPTH = 6


class ConcurrencyTracker:
    """Owns which functions run at the place that is being read, and what runs beside it."""

    def __init__(self) -> None:
        self._parallel = 0  # pipes and `&` around this place
        self._running: list[tuple[Node, int]] = []  # bodies, and what ran beside them then
        self._called: set[str] = set()

    @property
    def is_parallel(self) -> bool:
        return self._parallel > 0

    @contextmanager
    def in_parallel(self) -> Iterator[None]:
        """Within, more runs at the same time."""
        self._parallel += 1
        yield
        self._parallel -= 1

    def note_call(self, name: str) -> None:
        self._called.add(name)

    def was_called(self, name: str) -> bool:
        return name in self._called

    def is_running(self, body: "Node") -> bool:
        return any(known == body for known, _ in self._running)

    def recurses_in_parallel(self, body: "Node") -> bool:
        """Whether a function that runs and calls itself does so with more of it beside."""
        return any(known == body and self._parallel > before for known, before in self._running)

    @contextmanager
    def running(self, body: "Node") -> Iterator[None]:
        self._running.append((body, self._parallel))
        yield
        self._running.pop()


def spawns_forever(loop: "Node") -> bool:
    """Whether a loop has no end and starts something in each round without waiting for it."""
    condition, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
    if condition is None:
        forever = loop.type == "c_style_for_statement"
    else:
        forever = _node_text(condition) in _ALWAYS_TRUE
    return forever and body is not None and _spawns(body)


def _spawns(body: "Node") -> bool:
    text = _node_text(body)
    if any(pause in text for pause in _PAUSES):
        return False
    return any(child.type == "&" for child in _descendants(body, _MAX_DEPTH))


def _descendants(node: "Node", depth: int) -> Iterator["Node"]:
    for child in node.children:
        yield child
        if depth:
            yield from _descendants(child, depth - 1)


def _node_text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")
