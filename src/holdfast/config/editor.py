"""Editing holdfast.toml: a few keys or the whole of it, checked before anything is written."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.document import parse_document, read_text
from holdfast.config.errors import ConfigError, dotted, explain
from holdfast.config.keys import Key, find_key
from holdfast.config.loading import Config
from holdfast.config.toml_patch import CannotPatch, patch, written, written_path
from holdfast.config.views import masked, show
from holdfast.config.whole_file import mode_of, write_whole
from holdfast.core.address_passwords import HIDDEN, is_hidden_in
from holdfast.core.config.effect import Effect, effect_of
from holdfast.core.config.home_files import CONFIG_FILE

Check = Callable[[str], Config]
"""Reads a text as the file that a gateway would start with; raises `ConfigError`."""

Names = tuple[str, ...]


class ChangedMeanwhile(ConfigError):
    """Somebody else has written the file since it was read, and it is left as it is."""


def changed_meanwhile(path: Path) -> ChangedMeanwhile:
    return ChangedMeanwhile(
        f"{path} was changed by somebody else just now, and is left as it is: "
        "look at it, and try again"
    )


class KeyChange(msgspec.Struct, frozen=True, kw_only=True):
    """One key before and after; a secret's value is its reference.

    `overridden_by`: a place that goes before the file, so that the key keeps the value it has.
    """

    key: str
    old: Any
    new: Any
    effect: Effect
    overridden_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What the file is to say, found to be in order, and not yet written."""

    path: Path
    before: str
    after: str
    there: bool  # whether there was a file
    config: Config
    changes: tuple[KeyChange, ...]

    def write(self) -> None:
        """Whole or not at all. Refused where somebody has changed the file meanwhile."""
        if (read_text(self.path) or "") != self.before:
            raise changed_meanwhile(self.path)
        if self.after != self.before:
            write_whole(self.path, self.after, mode=mode_of(self.path))

    def put_back(self) -> None:
        """Unless somebody else has written it since, or this was never written."""
        if self.after == self.before or (read_text(self.path) or "") != self.after:
            return
        if self.there:
            write_whole(self.path, self.before, mode=mode_of(self.path))
        else:
            self.path.unlink(missing_ok=True)


def edited(
    home: Path, *, values: Mapping[str, Any], unset: Sequence[str] = (), check: Check
) -> Edited:
    """The file with these keys set, by the names that people write, and those taken out. A table
    is set as a whole. Raises `ConfigError` with the place and what to do; nothing is written."""
    path = home / CONFIG_FILE
    before = read_text(path)
    tree = parse_document(path, before or "").tree
    wanted: dict[Names, Any] = {find_key(name).path: None for name in unset}
    try:
        for name, value in values.items():
            wanted.update(_leaves_wanted(find_key(name), value, tree))
        _refuse_hidden(wanted)
        after = patch(before or "", wanted)
    except RecursionError:
        raise explain(str(path), "tables within tables to no end are no value of a key") from None
    except CannotPatch as error:
        raise _by_hand(path, wanted, str(error)) from None
    return _edited(path, before, after, check)


def replaced(home: Path, text: str, *, check: Check, seen: str | None = None) -> Edited:
    """The file with another text in the place of its own, as a whole. `seen`: what somebody has
    looked at who wants that; `ChangedMeanwhile` is raised where the file says something else."""
    path = home / CONFIG_FILE
    before = read_text(path)
    if seen is not None and seen != (before or ""):
        raise changed_meanwhile(path)
    return _edited(path, before, text, check)


def file_keys(text: str) -> dict[str, Any]:
    """Every key that a file says something of, by the name people write; none, if it is no TOML."""
    return {dotted(path): masked(path, value) for path, value in _said(text).items()}


def _said(text: str) -> dict[Names, Any]:
    try:
        return dict(_leaves(tomllib.loads(text), ()))
    except (ValueError, RecursionError):  # no TOML, or what goes beyond any that is read
        return {}


def changed_keys(before: str, after: str) -> tuple[str, ...]:
    """The keys that two files speak of differently."""
    old, new = _said(before), _said(after)
    return tuple(dotted(path) for path in {**old, **new} if old.get(path) != new.get(path))


def _edited(path: Path, before: str | None, after: str, check: Check) -> Edited:
    config = check(after)
    return Edited(
        path=path,
        before=before or "",
        after=after,
        there=before is not None,
        config=config,
        changes=tuple(_changes(before or "", after, config, check)),
    )


def _changes(before: str, after: str, config: Config, check: Check) -> Iterator[KeyChange]:
    old, new = file_keys(before), file_keys(after)
    try:
        stood = {each.key: each.value for each in show(check(before))}
    except ConfigError:  # what it says now cannot be used: its own words are all there is
        stood = {}
    stands = {each.key: each.value for each in show(config)}
    for key in changed_keys(before, after):
        origin = config.origins.get(key, CONFIG_FILE)
        decides = origin == CONFIG_FILE  # else what holds is not the file's to say
        yield KeyChange(
            key=key,
            old=old.get(key, stood.get(key) if decides else None),
            new=new.get(key, stands.get(key) if decides else None),
            effect=effect_of(key),
            overridden_by="" if decides else origin,
        )


def _leaves_wanted(key: Key, value: Any, tree: Mapping[str, Any]) -> dict[Names, Any]:
    """A table is made of its keys: those that it has now and is not to have are taken out."""
    if value is None:
        raise explain(key.name, "is given no value", fix="unset it to have its default again")
    if not key.is_table:
        return {key.path: value}
    if not isinstance(value, Mapping):
        raise explain(key.name, "is a table, and not a key", fix=f"name a key of it: {key.name}.…")
    if not value:
        raise explain(key.name, "is given nothing to hold", fix="say what of it, or unset it")
    standing: Any = tree
    for name in key.path:
        standing = standing.get(name, {}) if isinstance(standing, dict) else {}
    gone = {(*key.path, *path): None for path, _ in _leaves(standing, ())}
    return {**gone, **{(*key.path, *path): each for path, each in _leaves(value, ())}}


def _refuse_hidden(wanted: Mapping[Names, Any]) -> None:
    """Whoever saves what they were shown is not to lose a password by it."""
    for path, value in wanted.items():
        if any(isinstance(each, str) and is_hidden_in(each) for each in _each(value)):
            raise explain(
                dotted(path),
                "is given an address whose password is hidden",
                fix=f"write the password in the place of {HIDDEN}, or leave the key as it is",
            )


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _leaves(node: Mapping[str, Any], path: Names) -> Iterator[tuple[Names, Any]]:
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _by_hand(path: Path, wanted: Mapping[Names, Any], problem: str) -> ConfigError:
    lines = [
        f"{written_path(key)} = {written(value)}" if value is not None else f"no {dotted(key)}"
        for key, value in wanted.items()
    ]
    return explain(str(path), problem, fix="write it there yourself: " + "; ".join(lines))
