"""Checks in the source that the state of a running session is in one object (B1)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import holdfast.gateway

GATEWAY = Path(holdfast.gateway.__file__).parent
ALLOWED = {"Lanes": {"_lanes"}, "AgentCache": {"_entries"}, "SessionFeeds": {"_feeds"}}
"""Classes that may have maps keyed by session, and these: live sessions, cached agents, and the
subscribers of a session, whether it is live or not."""
MAPS = ("dict", "OrderedDict", "defaultdict", "Counter", "ChainMap", "Mapping", "MutableMapping")
MAPS += ("WeakValueDictionary", "WeakKeyDictionary")


def _name_of(node: ast.AST) -> str | None:
    """The name of a variable, or of an attribute of any object."""
    return getattr(node, "attr", None) or getattr(node, "id", None)


def _is_session(key: ast.AST) -> bool:
    """Whether the name of a key says that it is a session."""
    name = _name_of(key) or ""
    return name == "session" or name.endswith("session_id")


def _annotated_maps(owner: ast.AST) -> dict[str, ast.AST]:
    """The annotated maps in a class or module, with the types of key and value."""
    return {
        str(_name_of(node.target)): node.annotation.slice
        for node in ast.walk(owner)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.annotation, ast.Subscript)
        and _name_of(node.annotation.value) in MAPS
    }


def _maps_without_key_type(owner: ast.AST) -> set[str]:
    """The attributes that are set to a map, and the names of a module or class that are set to an
    empty one (a table of constants is full), without an annotation of its keys."""
    body: list[ast.stmt] = getattr(owner, "body", [])
    found = set()
    for node in ast.walk(owner):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        value = node.value
        called = _name_of(value.func) if isinstance(value, ast.Call) else None
        filled = isinstance(value, ast.DictComp) or (isinstance(value, ast.Dict) and value.keys)
        if filled or isinstance(value, ast.Dict) or called in MAPS:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {
                str(_name_of(target))
                for target in targets
                if isinstance(target, ast.Attribute) or (node in body and not filled)
            }
    return found - set(_annotated_maps(owner))


def _maps_by_session(owner: ast.AST) -> set[str]:
    """The maps that are keyed by session: by their annotation, or by the keys that are stored."""
    found = {
        name
        for name, types in _annotated_maps(owner).items()
        if ast.unparse(types).lstrip("(").startswith("SessionId")
    }
    for node in ast.walk(owner):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target, key = node.value, node.slice
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "setdefault"
            and node.args
        ):
            target, key = node.func.value, node.args[0]
        else:
            continue
        if isinstance(target, ast.Attribute) and _is_session(key):
            found.add(target.attr)
    return found


def _owners(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The classes of a module, and what is at its top, as an owner without a name."""
    yield "", ast.Module([each for each in tree.body if not isinstance(each, ast.ClassDef)], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, node


def _gateway() -> Iterator[tuple[str, ast.AST]]:
    for file in sorted(GATEWAY.rglob("*.py")):
        yield from _owners(ast.parse(file.read_text()))


def test_no_parallel_maps_keyed_by_session() -> None:
    """B1: a second map keyed by session could contradict the first."""
    found = {name: maps for name, owner in _gateway() if (maps := _maps_by_session(owner))}
    assert found == ALLOWED


def test_every_map_says_what_it_is_keyed_by() -> None:
    """B1: otherwise the check of the keys would not see it."""
    found = {(name, each) for name, owner in _gateway() for each in _maps_without_key_type(owner)}
    assert not found


def _check(source: str) -> tuple[set[str], set[str]]:
    """The maps keyed by session and those without a type of key, in the whole source."""
    owners = [owner for _, owner in _owners(ast.parse(source))]
    return (
        {each for owner in owners for each in _maps_by_session(owner)},
        {each for owner in owners for each in _maps_without_key_type(owner)},
    )


def test_the_checks_find_a_second_map() -> None:
    """B1: the checks can fail, also for a map without an annotation or with another one."""
    init = "class X:\n  def __init__(self):\n    self.busy"
    assert _check(f"{init}: dict[SessionId, float] = {{}}") == ({"busy"}, set())
    assert _check(f"{init}: Mapping[SessionId, float] = one()") == ({"busy"}, set())
    for value in ("{}", "dict()", "OrderedDict()", "collections.defaultdict(list)"):
        assert _check(f"{init} = {value}") == (set(), {"busy"})
        assert _check(f"BUSY = {value}") == (set(), {"BUSY"})
    for value in ("{1: 2}", "{one: 2 for one in all}"):
        assert _check(f"{init} = {value}") == (set(), {"busy"})
        assert _check(f"TABLE = {value}") == (set(), set())
    assert _check(f"{init}: Any = {{}}") == (set(), {"busy"})
    for use in ("x.busy[session_id] = 1", "x.busy.setdefault(turn.session_id, 1)"):
        assert _check(f"{init}: dict[str, int] = {{}}\n    {use}") == ({"busy"}, set())
    assert _check("def f():\n  local = {}\n  local[session_id] = 1") == (set(), set())
