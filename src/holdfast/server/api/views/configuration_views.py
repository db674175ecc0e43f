"""The configuration as it is told over HTTP: its keys, its changes, and its history."""

import hashlib
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from holdfast.config.difference import difference
from holdfast.config.editor import KeyChange
from holdfast.config.errors import is_secret
from holdfast.config.loading import Config
from holdfast.config.schema import describe
from holdfast.config.views import Shown, show, values_of
from holdfast.core.address_passwords import without_passwords
from holdfast.core.config.configuration import ConfigurationFacts
from holdfast.core.config.effect import Effect, effect_of
from holdfast.core.config.home_files import CONFIG_FILE
from holdfast.core.config.kept_configuration import ConfigurationSource, KeptConfiguration
from holdfast.core.config.settings import Settings
from holdfast.server.api.views.key_kinds import KeyKind, choices_of, kind_of
from holdfast.server.api.views.table_lists import TableListView, in_list, table_lists, whole_key

Number = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]  # of a configuration


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """One key. `value` is what the file and whatever goes before it come to. `in_force` differs
    from it where the key `waits` for a restart."""

    key: str
    value: Any
    origin: str  # "default", or the place that set it
    effect: Effect
    variable: str  # the environment variable that goes before the file
    kind: KeyKind
    allowed: str
    choices: list[str] = []
    in_file: bool = False
    waits: bool = False
    in_force: Any = None


class ConfigView(msgspec.Struct, frozen=True, kw_only=True):
    """`revision` tells one text of the file from another, also one that was not taken over.
    `problem`: why the file cannot be used; then these are the keys that are in force. `lists`:
    those of tables, whose tables are among the keys one by one as well."""

    path: str
    number: int
    since: float
    revision: str
    problem: str
    waits: list[str]
    warnings: list[str]
    keys: list[KeyView]
    lists: list[TableListView] = []


class ReadAt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody looked at who wants a change: where it is no more, nothing is changed."""

    number: int | None = None
    revision: str | None = None


class ConfigChange(ReadAt, frozen=True, kw_only=True, forbid_unknown_fields=True):
    set: dict[str, Any] = {}
    unset: list[str] = []


class RollbackAsked(ReadAt, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: Number


class ConfigChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `waits`: keys that hold only after a restart."""

    number: int
    changes: list[KeyChange]
    accounts: list[str] = []
    waits: list[str] = []
    warnings: list[str] = []


class ConfigurationLine(msgspec.Struct, frozen=True, kw_only=True):
    """One that was in force."""

    number: int
    at: float
    by: str
    source: ConfigurationSource
    changed: list[str]
    in_force: bool


class ConfigurationList(msgspec.Struct, frozen=True, kw_only=True):
    configurations: list[ConfigurationLine]
    more: bool


class ConfigurationView(ConfigurationLine, frozen=True, kw_only=True):
    """`diff`: the lines that it has otherwise than the one that it is held `against`, which is
    the one before it where nobody says; 0: there is none. Passwords of addresses are hidden."""

    text: str
    against: int
    diff: list[str]


def revision_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_view(
    config: Config, text: str, *, settings: Settings, facts: ConfigurationFacts, problem: str
) -> ConfigView:
    """`settings` are those in force."""
    shown = show(config)
    return ConfigView(
        path=str(config.home / CONFIG_FILE),
        number=facts.number,
        since=facts.since,
        revision=revision_of(text),
        problem=problem,
        waits=list(facts.waits),
        warnings=list(config.warnings),
        keys=list(_keys(shown, values_of(settings), frozenset(facts.waits))),
        lists=table_lists(shown),
    )


def line_of(kept: KeptConfiguration, *, in_force: int) -> ConfigurationLine:
    return ConfigurationLine(
        number=kept.number,
        at=kept.at,
        by=kept.by,
        source=kept.source,
        changed=list(kept.changed),
        in_force=kept.number == in_force,
    )


def compared(
    kept: KeptConfiguration, other: KeptConfiguration | None, *, in_force: int
) -> ConfigurationView:
    before = without_passwords("" if other is None else other.text)
    text = without_passwords(kept.text)
    return ConfigurationView(
        **msgspec.structs.asdict(line_of(kept, in_force=in_force)),
        text=text,
        against=0 if other is None else other.number,
        diff=difference(before, text, around=3),
    )


def _keys(shown: list[Shown], in_force: dict[str, Any], waits: frozenset[str]) -> Iterator[KeyView]:
    for each in shown:
        whole = whole_key(each.key)
        tables = in_list(each.key)
        yield KeyView(
            key=each.key,
            value=each.value,
            origin=each.origin,
            effect=effect_of(each.key),
            variable=each.variable,
            kind=KeyKind.TABLES if tables else kind_of(whole.node, secret=is_secret(whole.path)),
            allowed=describe(whole.node),
            choices=choices_of(whole.node),
            in_file=each.origin == CONFIG_FILE,
            waits=each.key in waits,
            in_force=in_force.get(each.key) if each.key in waits else None,
        )
