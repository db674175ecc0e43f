"""Rules about the source (I1, K2, law 4): which modules call platforms, open the database or
announce sessions, how many parameters a constructor of the gateway has, and that it follows commits
by subscribing."""

import ast
import re
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
SESSION_ANNOUNCERS = {
    "gateway/live/feeds.py",  # at the commit of what has changed
    "gateway/turns/lane.py",  # the state of a lane, which has no row
    "gateway/approvals/service.py",  # approvals of a turn, in each session that shows them
}


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


def _announces_sessions(tree: ast.AST) -> bool:
    """Whether it tells the readers of the live feeds that a session has changed or is gone."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    return bool(names & {"session_changed", "session_deleted"})


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
    assert not found
    assert not [name for name, tree in _files() if "sqlite3" in _imported(tree)]


def test_only_the_store_knows_its_implementations() -> None:
    """K2: everything else opens or checks a store through `store/implementations.py`, so that a
    second implementation changes nothing there."""
    found = {
        (name, module)
        for name, tree in _files()
        for module in _imported(tree)
        if module.startswith("holdfast.store.sqlite") and not name.startswith("store/")
    }
    assert not found


MAX_PARAMETERS = 8
MORE_PARAMETERS = {
    "Gateway": 17,  # composes all components; what it gets was built by the service
    # What an agent uses of a turn is spread over the gateway. Three are data of the turn.
    "TurnContext": 11,
}


def _constructors(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The classes with a constructor of their own, and how many parameters it has."""
    for node in ast.walk(tree):
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                given = (*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs)
                yield node.name, len(given) - 1


def test_no_constructor_of_the_gateway_takes_more_than_a_few_parameters() -> None:
    """Decision 57: what a class depends on can be read off its constructor."""
    found = {
        name: count
        for _, tree in _files("gateway")
        for name, count in _constructors(tree)
        if count > MAX_PARAMETERS
    }
    assert found == MORE_PARAMETERS


ASSIGNED_FROM_OUTSIDE = {
    # Records of the same file.
    ("gateway/agents/cache.py", "busy"),
    ("gateway/agents/cache.py", "counted"),
    ("gateway/inbound/inbound_policy.py", "at"),
    ("gateway/inbound/inbound_policy.py", "count"),
    ("gateway/inbound/inbound_policy.py", "notified"),
    ("gateway/outbound/outbox.py", "first_since"),
    ("gateway/outbound/outbox.py", "task"),
    # What a cached agent is asked for between its turns.
    ("gateway/turns/busy_notices.py", "busy_notice_at"),
    ("gateway/turns/turn.py", "active_at"),
    ("gateway/turns/turn_log.py", "active_at"),
}


def _foreign_assignments(tree: ast.AST) -> set[str]:
    """The attributes that are assigned on anything but `self`."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }


def test_a_component_of_the_gateway_is_not_changed_from_outside() -> None:
    """Decision 57: an attribute that another object assigns is a dependency that no constructor
    shows."""
    found = {
        (name, attr) for name, tree in _files("gateway") for attr in _foreign_assignments(tree)
    }
    assert found == ASSIGNED_FROM_OUTSIDE


def test_stored_changes_of_sessions_are_announced_by_their_commit() -> None:
    """Law 4: a second announcement by the code that awaits the write would reach readers twice,
    and none of them if that code was cancelled."""
    found = {name for name, tree in _files() if _announces_sessions(tree)}
    assert found == SESSION_ANNOUNCERS


MARK_WRITERS = {"clear_resume_pending", "mark_resume_pending"}


def _mark_writers(tree: ast.AST) -> set[str]:
    """The functions with an SQL statement that writes the mark of a session."""
    return {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.search(r"\b(resume_pending|resume_reason|last_resume_marked_at) = ", node.value)
    }


def test_one_function_marks_a_session_and_one_clears_the_mark() -> None:
    """F2, decision 70: a second one would promise something else."""
    assert {
        (name, function) for name, tree in _files("store") for function in _mark_writers(tree)
    } == {("store/sqlite/writes/session_state.py", function) for function in MARK_WRITERS}


def _done_callbacks(tree: ast.AST) -> int:
    """How often a callback is added to a future or a task."""
    return sum(
        isinstance(node, ast.Attribute) and node.attr == "add_done_callback"
        for node in ast.walk(tree)
    )


def test_nothing_in_the_gateway_follows_a_write_by_a_callback() -> None:
    """Law 4, decision 54: what follows from a commit subscribes to it. A callback on the future of
    a write, or on a task that awaits one, is not called in commit order, and each has to check for
    errors. What follows from the end of a task is in the coroutine that it runs."""
    assert not [name for name, tree in _files("gateway") if _done_callbacks(tree)]


def _awaited_handlers(tree: ast.AST) -> set[str]:
    """The awaited calls of methods whose name says that they handle an event."""
    calls = (node.value for node in ast.walk(tree) if isinstance(node, ast.Await))
    return {
        call.func.attr
        for call in calls
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr.startswith("on_")
    }


STATELESS_WITH_ONE_METHOD = {
    # They implement a port.
    "NoCredentialLocks",
    "SleepTimer",
    # A group of handlers of routes, each of which the web server calls.
    "AccountHandlers",
    "BackupCopyHandlers",
    "LoginRoutes",
    "PairingHandlers",
    "TokenHandlers",
    "WebhookRoutes",
    # Private methods that need most of the collaborators.
    "FailureReports",
    "Takeover",
}
_CONTEXT_MANAGERS = {"__enter__", "__aenter__"}
_VALUE_CALLS = {"partial", "tuple", "Paths", "Lock"}  # of asyncio: one for each request


def _methods(owner: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (
        each for each in owner.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _assigned(method: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The attributes of `self` that a method assigns, and what to."""
    for node in ast.walk(method):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((ast.unparse(target), value) for target in targets)
            case ast.AnnAssign(target=target, value=value):
                yield ast.unparse(target), value
            case ast.AugAssign(target=target):
                yield ast.unparse(target), None


def _holds_state(owner: ast.ClassDef) -> bool:
    """Whether it assigns an attribute after its construction, or makes one that can change."""
    for method in _methods(owner):
        for target, value in _assigned(method):
            if "self." not in target:
                continue
            given = isinstance(value, ast.Name | ast.Attribute | ast.BoolOp | ast.IfExp)
            if isinstance(value, ast.Call):
                given = ast.unparse(value.func).rpartition(".")[2] in _VALUE_CALLS
            if method.name != "__init__" or not given:
                return True
    return False


def _stateless_with_one_method(tree: ast.AST) -> set[str]:
    """Classes without a base and without state, of which others call at most one method."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not (node.bases or node.decorator_list):
            names = {each.name for each in _methods(node)}
            called = {name for name in names if not name.startswith("_") or name == "__call__"}
            if len(called) == 1 and not names & _CONTEXT_MANAGERS and not _holds_state(node):
                found.add(node.name)
    return found


def test_a_class_with_one_method_has_state_or_implements_a_port() -> None:
    """Decision 57: otherwise it is a function."""
    packages = ("gateway", "server", "service", "cli")
    found = {name for _, tree in _files(*packages) for name in _stateless_with_one_method(tree)}
    assert found == STATELESS_WITH_ONE_METHOD


def test_nothing_in_the_gateway_follows_a_write_by_hand() -> None:
    """Law 4, decision 54: code that awaits a write and then calls what follows from it does not do
    so if it is cancelled in between. Events are published, and their handlers do not wait."""
    assert not [name for name, tree in _files("gateway") if _awaited_handlers(tree)]


def test_the_source_check_finds_a_violation() -> None:
    """I1: the check itself can fail."""
    source = "async def x(p):\n  await p.platform.send(1)\n  import sqlite3\n"
    assert _platform_calls(ast.parse(source)) == {"send"}
    assert _imported(ast.parse(source)) == {"sqlite3"}
    source = "class A:\n  def __init__(self, a, /, b, *, c=1): ...\nclass B:\n  x = 1\n"
    assert list(_constructors(ast.parse(source))) == [("A", 3)]
    source = "class A:\n  def f(self, b):\n    self.x = b.y = self.b.z = 1\n"
    assert _foreign_assignments(ast.parse(source)) == {"y", "z"}
    assert _done_callbacks(ast.parse("x.y = store.write(z)\nx.y.add_done_callback(f)\n")) == 1
    assert _done_callbacks(ast.parse("create_task(w()).add_done_callback(f)\n")) == 1
    source = "class A:\n  def __init__(self, a):\n    self.a = a\n  def run(self): self._do()\n"
    assert _stateless_with_one_method(ast.parse(source)) == {"A"}
    assert not _stateless_with_one_method(ast.parse(f"{source}  def go(self): self.b = 1\n"))
    assert not _stateless_with_one_method(ast.parse(source.replace("= a", "= []")))
    assert _awaited_handlers(ast.parse("async def x(p):\n  await p.on_planned(1)\n"))
    assert not _announces_sessions(ast.parse(source))
    source = 'def f(x):\n  x.execute("UPDATE sessions SET resume_pending = NULL")\n'
    assert _mark_writers(ast.parse(source)) == {"f"}
    assert _announces_sessions(ast.parse("self._feeds.session_changed(x)"))
