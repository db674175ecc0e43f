"""I1, K2: which modules call platforms or open the database."""

import ast
from collections.abc import Iterator
from pathlib import Path

import holdfast

SOURCE = Path(holdfast.__file__).parent
PACKAGES = ("agent", "gateway", "service", "tools")
"""The packages that have access to platforms."""
PLATFORM_CALLS = {
    ("gateway/outbound/sender.py", "send"),
    ("gateway/outbound/sender.py", "edit"),
    ("gateway/outbound/best_effort.py", "show_typing"),
    ("gateway/outbound/best_effort.py", "react"),
}
"""All of these are called in the queue of a chat, behind the send gates."""


def _files(*packages: str) -> Iterator[tuple[str, ast.AST]]:
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        if not packages or name.partition("/")[0] in packages:
            yield name, ast.parse(file.read_text())


def _platform_calls(tree: ast.AST) -> set[str]:
    """The awaited calls of platform methods, by the names of the port."""
    calls = (node.value for node in ast.walk(tree) if isinstance(node, ast.Await))
    return {
        call.func.attr
        for call in calls
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("send", "edit", "show_typing", "react", "delete_message")
    }


def _imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_only_the_outbox_talks_to_platforms() -> None:
    """I1: output that is sent elsewhere has no row, no order and no gate."""
    found = {(name, call) for name, tree in _files(*PACKAGES) for call in _platform_calls(tree)}
    assert found == PLATFORM_CALLS


def test_only_the_store_opens_databases_and_with_one_library() -> None:
    """K2: a second SQLite in the process would not see the locks of the first."""
    found = {
        name
        for name, tree in _files()
        if _imported(tree) & {"apsw", "sqlite3"} and not name.startswith("store/")
    }
    assert found <= {"cli/doctor/checks.py"}  # which reports the version of apsw
    assert not [name for name, tree in _files() if "sqlite3" in _imported(tree)]


def test_the_source_check_finds_a_violation() -> None:
    """I1: the check itself can fail."""
    source = "async def x(p):\n  await p.platform.send(1)\n  import sqlite3\n"
    assert _platform_calls(ast.parse(source)) == {"send"}
    assert _imported(ast.parse(source)) == {"sqlite3"}
