"""Checks in the source that the state of a running session is in one object (B1)."""

import ast
from pathlib import Path

import holdfast.gateway

GATEWAY = Path(holdfast.gateway.__file__).parent
ALLOWED = {"Lanes": 1, "AgentCache": 1, "SessionFeeds": 1}
"""Classes that may have maps keyed by session, and how many: live sessions, cached agents, and the
subscribers of a session, whether it is live or not."""


def _maps_by_session(tree: ast.AST) -> dict[str, int]:
    """Per class, how many attributes are annotated as a map from SessionId."""
    found: dict[str, int] = {}
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        maps = [
            node
            for node in ast.walk(owner)
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.annotation, ast.Subscript)
            and "ict" in ast.unparse(node.annotation.value)
            and ast.unparse(node.annotation.slice).lstrip("(").startswith("SessionId")
        ]
        if maps:
            found[owner.name] = len(maps)
    return found


def test_no_parallel_maps_keyed_by_session() -> None:
    """B1: a second map keyed by session could contradict the first."""
    found: dict[str, int] = {}
    for file in sorted(GATEWAY.rglob("*.py")):
        found |= _maps_by_session(ast.parse(file.read_text()))
    assert found == ALLOWED


def test_the_check_finds_a_map_keyed_by_session() -> None:
    """B1: the check itself can fail."""
    source = "class X:\n  def __init__(self):\n    self.busy: dict[SessionId, float] = {}\n"
    assert _maps_by_session(ast.parse(source)) == {"X": 1}
