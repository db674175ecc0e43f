"""HOLDFAST_… variables: one for each key, over what the file says."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import inspect

from holdfast.config.doors import UnreadSettings, known_doors
from holdfast.config.dotenv import DotEnv
from holdfast.config.draft import Draft
from holdfast.config.errors import ConfigError, KeyPath, explain, is_secret, nearest
from holdfast.config.platforms import ACCOUNTS, PLATFORMS, door_of, shape_of, shape_of_account
from holdfast.config.schema import Node, describe, plain, shape
from holdfast.core.ports.door import BUILT_IN

PREFIX = "HOLDFAST_"
_OF_PLATFORMS = f"{PREFIX}PLATFORMS_"
APART = {
    "HOLDFAST_HOME": "the home directory",
    "HOLDFAST_CRASH_AT": "the crash point at which the fault tests kill the gateway",
    "HOLDFAST_STALL_AT": "the phase at which the fault tests hold the gateway up",
    "HOLDFAST_UNIT": "the name of the unit that started the gateway; set by the unit itself",
    "HOLDFAST_SCOPE": "whether that unit is the user's or the system's; set by the unit itself",
    "HOLDFAST_BOOT": "set by `holdfast gateway boot` for the gateway that it starts",
    "HOLDFAST_SOAK": "set by `make soak` for its tests",
}
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def apply_variables(draft: Draft, dotenv: DotEnv, environ: Mapping[str, str]) -> None:
    """Put every HOLDFAST_… variable over the file; the process's own beat those of `.env`."""
    every = sorted({*dotenv.values, *environ})
    given = [name for name in every if name.startswith(PREFIX) and name not in APART]
    known = dict(_names(draft, given)) if given else {}
    for name in given:
        origin = _origin(name, dotenv, environ)
        if name not in known:
            raise explain(
                origin,
                "no key has this name",
                nearest=nearest(name, known),
                fix="`holdfast config schema` lists the keys; unset the variable or mend its name",
            )
        path, node = known[name]
        value = environ[name] if name in environ else dotenv.values[name]
        draft.put(path, _parse(name, path, node, value, origin), origin=origin)


def variable_for(path: KeyPath) -> str:
    return PREFIX + "_".join(str(part) for part in path).upper().replace("-", "_")


def _names(draft: Draft, given: Collection[str]) -> Iterator[tuple[str, tuple[KeyPath, Node]]]:
    for section in shape().fields:
        if isinstance(section.type, inspect.StructType):
            yield from _fields(section.type, (section.name,))
    for name in _doors_meant([each for each in given if each.startswith(_OF_PLATFORMS)]):
        yield from _of_door(draft, name, given)


def _doors_meant(given: Collection[str]) -> list[str]:
    """The doors whose keys these variables may be. Which doors are installed is asked only where
    one of them is none of ours: it takes longer than all the rest of this."""

    def meant(names: Iterable[str]) -> list[str]:
        begins = {name: f"{variable_for((PLATFORMS, name))}_" for name in names}
        return [name for name, own in begins.items() if any(g.startswith(own) for g in given)]

    ours = meant(BUILT_IN)
    known = tuple(f"{variable_for((PLATFORMS, name))}_" for name in ours)
    return ours if all(name.startswith(known) for name in given) else meant(known_doors())


def _of_door(
    draft: Draft, name: str, given: Collection[str]
) -> Iterator[tuple[str, tuple[KeyPath, Node]]]:
    """The keys of a platform, and of those of its accounts that the file names."""
    door = door_of(draft, name)
    if door.settings is UnreadSettings:
        yield from _unread(name, given)
    own = shape_of_account(shape_of(door))
    yield from _fields(own, (PLATFORMS, name))
    written: Any = draft.tree
    for part in (PLATFORMS, name, ACCOUNTS):
        written = written.get(part) if isinstance(written, dict) else None
    for account in written if isinstance(written, dict) else ():
        yield from _fields(own, (PLATFORMS, name, ACCOUNTS, account))


def _unread(name: str, given: Collection[str]) -> Iterator[tuple[str, tuple[KeyPath, Node]]]:
    """Any key may be one of a door that cannot be loaded."""
    begins = f"{variable_for((PLATFORMS, name))}_"
    for variable in given:
        if variable.startswith(begins):
            key = variable.removeprefix(begins).lower()
            yield variable, ((PLATFORMS, name, key), inspect.StrType())


def _fields(node: inspect.StructType, path: KeyPath) -> Iterator[tuple[str, tuple[KeyPath, Node]]]:
    for field in node.fields:
        key = (*path, field.name)
        yield variable_for(key), (key, field.type)


def _origin(name: str, dotenv: DotEnv, environ: Mapping[str, str]) -> str:
    if name in environ:
        return f"environment variable {name}"
    return f"{dotenv.path}, line {dotenv.lines[name]}, {name}"


def _parse(name: str, path: KeyPath, node: Node, text: str, origin: str) -> Any:
    if is_secret(path) and text and not text.startswith(("env:", "file:")):
        # A variable may hold the secret itself; the key then refers to the variable.
        return f"env:{name}"
    node, optional = plain(node)
    if optional and not text:
        return None
    try:
        return value_of(node, text)
    except ValueError:
        raise _refused(origin, node, text) from None


def value_of(node: Node, text: str) -> Any:
    """What a text means for a key that holds such a thing. Raises `ValueError`."""
    match node:
        case inspect.BoolType():
            return _truth(text)
        case inspect.IntType():
            return int(text)
        case inspect.FloatType():
            return float(text)
        case inspect.VarTupleType():
            return _list(node, text)
    return text


def _truth(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _list(node: inspect.VarTupleType, text: str) -> Any:
    if text.lstrip().startswith("[") or isinstance(node.item_type, inspect.StructType):
        return json.loads(text or "[]")
    return [item.strip() for item in text.split(",") if item.strip()]


def _refused(origin: str, node: Node, text: str) -> ConfigError:
    if isinstance(node, inspect.VarTupleType):
        # Not shown: a list of tables may hold a secret.
        return explain(origin, "is not a JSON array", allowed=describe(node))
    problem = "has a value that is not allowed"
    return explain(origin, problem, found=repr(text), allowed=describe(node))
