"""Edits holdfast.toml: some keys or the whole file, checked before anything is written."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.document import parse_document, read_text
from holdfast.config.errors import ConfigError, config_error, format_key
from holdfast.config.files import mode_of, write_atomically
from holdfast.config.keys import Key, find_key
from holdfast.config.loader import Config
from holdfast.config.renamed import migrate_text
from holdfast.config.toml_edit import UnpatchableToml, format_path, format_value, patch_toml
from holdfast.config.views import list_keys, mask_value
from holdfast.core.config.changes import ChangeEffect, change_effect
from holdfast.core.config.versions import CONFIG_FILE
from holdfast.core.secrets import PASSWORD_MASK, has_masked_password
from holdfast.core.text.translation import N_

CheckConfig = Callable[[str], Config]
"""Reads a text as the file that a gateway would start with; raises `ConfigError`."""

Names = tuple[str, ...]


class FileChangedMeanwhile(ConfigError):
    """Another process or person has written the file since it was read. It was not changed."""


def changed_meanwhile(path: Path) -> FileChangedMeanwhile:
    return FileChangedMeanwhile(
        N_(
            "{file} was changed elsewhere a moment ago and was not overwritten. Check it and retry."
        ),
        file=path,
    )


class KeyChange(msgspec.Struct, frozen=True, kw_only=True):
    """One key before and after; a secret's value is its reference.

    `overridden_by`: a place that goes before the file, so that the key keeps the value it has.
    """

    key: str
    old: Any
    new: Any
    effect: ChangeEffect
    overridden_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEdit:
    """A checked change of the file, not written yet."""

    path: Path
    before: str
    after: str
    existed: bool  # whether there was a file
    config: Config
    changes: tuple[KeyChange, ...]

    def write(self) -> None:
        """Atomically. Refused if the file was changed meanwhile."""
        if (read_text(self.path) or "") != self.before:
            raise changed_meanwhile(self.path)
        if self.after != self.before:
            write_atomically(self.path, self.after, mode=mode_of(self.path))

    def revert(self) -> None:
        """Does nothing if the file was changed since, or this edit was not written."""
        if self.after == self.before or (read_text(self.path) or "") != self.after:
            return
        if self.existed:
            write_atomically(self.path, self.before, mode=mode_of(self.path))
        else:
            self.path.unlink(missing_ok=True)


def edit_keys(
    home: Path, *, values: Mapping[str, Any], unset: Sequence[str] = (), check: CheckConfig
) -> ConfigEdit:
    """The file with these keys set, by the names that people write, and `unset` removed. A table
    is set as a whole. Raises `ConfigError`; writes nothing."""
    path = home / CONFIG_FILE
    before = read_text(path)
    tree = parse_document(path, before or "").tree
    changes: dict[Names, Any] = {find_key(name).path: None for name in unset}
    try:
        for name, value in values.items():
            changes.update(_requested_leaves(find_key(name), value, tree))
        _refuse_masked(changes)
        after = patch_toml(before or "", changes)
    except RecursionError:
        raise config_error(path, N_("a value has too many tables nested in each other")) from None
    except UnpatchableToml as error:
        raise _edit_by_hand_error(path, changes, error) from None
    return _checked_edit(path, before, after, check)


def replace_file(
    home: Path, text: str, *, check: CheckConfig, expected: str | None = None
) -> ConfigEdit:
    """The whole file replaced by a text that was saved earlier, with renamed keys under their new
    names. `expected` is the text that the change was decided on; `FileChangedMeanwhile` is raised
    where the file says something else."""
    path = home / CONFIG_FILE
    before = read_text(path)
    if expected is not None and expected != (before or ""):
        raise changed_meanwhile(path)
    return _checked_edit(path, before, migrate_text(text), check)


def file_keys(text: str) -> dict[str, Any]:
    """The keys in a file, by the names that people write; none if it is not TOML."""
    return {format_key(path): mask_value(path, value) for path, value in _file_values(text).items()}


def _file_values(text: str) -> dict[Names, Any]:
    try:
        return dict(_leaf_items(tomllib.loads(text), ()))
    except (ValueError, RecursionError):  # no TOML, or what goes beyond any that is read
        return {}


def changed_keys(before: str, after: str) -> tuple[str, ...]:
    """The keys whose values differ between two files."""
    old, new = _file_values(before), _file_values(after)
    return tuple(format_key(path) for path in {**old, **new} if old.get(path) != new.get(path))


def _checked_edit(path: Path, before: str | None, after: str, check: CheckConfig) -> ConfigEdit:
    config = check(after)
    return ConfigEdit(
        path=path,
        before=before or "",
        after=after,
        existed=before is not None,
        config=config,
        changes=tuple(_key_changes(before or "", after, config, check)),
    )


def _key_changes(
    before: str, after: str, config: Config, check: CheckConfig
) -> Iterator[KeyChange]:
    old, new = file_keys(before), file_keys(after)
    try:
        values_before = {each.key: each.value for each in list_keys(check(before))}
    except ConfigError:  # the current file is invalid, so only its text is known
        values_before = {}
    values_now = {each.key: each.value for each in list_keys(config)}
    for key in changed_keys(before, after):
        origin = config.origins.get(key, CONFIG_FILE)
        decides = origin == CONFIG_FILE  # else the file is overridden
        yield KeyChange(
            key=key,
            old=old.get(key, values_before.get(key) if decides else None),
            new=new.get(key, values_now.get(key) if decides else None),
            effect=change_effect(key),
            overridden_by="" if decides else origin,
        )


def _requested_leaves(key: Key, value: Any, tree: Mapping[str, Any]) -> dict[Names, Any]:
    """A table is set by its keys; those that the new value does not have are removed."""
    if value is None:
        raise config_error(
            key.name, N_("no value is given"), fix=N_("unset the key to restore its default")
        )
    if not key.is_table:
        return {key.path: value}
    if not isinstance(value, Mapping):
        raise config_error(
            key.name,
            N_("this is a table, not a key"),
            fix=N_("name a key of it: {key}.…"),
            key=key.name,
        )
    if not value:
        raise config_error(
            key.name, N_("the table is empty"), fix=N_("name the keys to set, or unset the table")
        )
    current: Any = tree
    for name in key.path:
        current = current.get(name, {}) if isinstance(current, dict) else {}
    removed = {(*key.path, *path): None for path, _ in _leaf_items(current, ())}
    return {**removed, **{(*key.path, *path): each for path, each in _leaf_items(value, ())}}


def _refuse_masked(requested: Mapping[Names, Any]) -> None:
    """A person who saves the values that are shown must not lose a password by that."""
    for path, value in requested.items():
        if any(isinstance(each, str) and has_masked_password(each) for each in _as_sequence(value)):
            raise config_error(
                format_key(path),
                N_("the password in this address is hidden"),
                fix=N_("write the password in place of {mask}, or do not change the key"),
                mask=PASSWORD_MASK,
            )


def _as_sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _leaf_items(node: Mapping[str, Any], path: Names) -> Iterator[tuple[Names, Any]]:
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaf_items(value, (*path, name))
        else:
            yield (*path, name), value


def _edit_by_hand_error(
    path: Path, requested: Mapping[Names, Any], problem: UnpatchableToml
) -> ConfigError:
    lines = [
        f"{format_path(key)} = {format_value(value)}"
        if value is not None
        else f"no {format_key(key)}"
        for key, value in requested.items()
    ]
    return config_error(
        path,
        "{problem}",
        fix=N_("edit the file yourself: {lines}"),
        problem=problem,
        lines="; ".join(lines),
    )
