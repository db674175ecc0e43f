"""The `.env` file, and the HOLDFAST_… variables: one per key, overriding the file."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from holdfast.config.document import RawConfig, read_text
from holdfast.config.errors import (
    ConfigError,
    KeyPath,
    Place,
    closest_match,
    config_error,
    is_secret_path,
)
from holdfast.config.platforms import (
    ACCOUNTS,
    BUILT_IN_PLUGINS,
    PLATFORMS,
    UnknownPluginSettings,
    account_schema,
    plugin_for_table,
    plugin_names,
    plugin_schema,
)
from holdfast.config.renamed import renamed_variable
from holdfast.config.validation import Node, describe, settings_schema, unwrap_optional
from holdfast.core.text.translation import N_, _

if TYPE_CHECKING:
    from dotenv.parser import Binding

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

PREFIX = "HOLDFAST_"
_PLATFORMS_PREFIX = f"{PREFIX}PLATFORMS_"
OTHER_VARIABLES = {
    "HOLDFAST_HOME": "the home directory",
    "HOLDFAST_CRASH_AT": "the crash point at which the fault tests kill the gateway",
    "HOLDFAST_STALL_AT": "the phase at which the fault tests hold the gateway up",
    "HOLDFAST_STORE": "the implementation of the store that the tests run with",
    "HOLDFAST_UNIT": "the name of the unit that started the gateway; set by the unit itself",
    "HOLDFAST_SCOPE": "whether that unit is the user's or the system's; set by the unit itself",
    "HOLDFAST_BOOT": "set by `holdfast gateway boot` for the gateway that it starts",
    "HOLDFAST_SOAK": "set by `make soak` for its tests",
}
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


class DotEnv(msgspec.Struct, frozen=True, kw_only=True):
    """The variables of the file, and the line of each."""

    path: Path
    values: dict[str, str] = msgspec.field(default_factory=dict)
    lines: dict[str, int] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_dotenv(path: Path) -> DotEnv:
    """Variables in a value are not expanded: a secret may contain `$`."""
    text = read_text(path)
    if text is None:
        return DotEnv(path=path)
    env = DotEnv(path=path, warnings=tuple(mode_warnings(path)))
    for binding in dotenv_bindings(text):
        name, value, (written, line), _ = binding
        line += written[: len(written) - len(written.lstrip())].count("\n")
        if binding.error or (name is not None and (value is None or not _NAME.fullmatch(name))):
            raise _line_error(path, line)
        if name is not None and value is not None:
            if re.search(r'=[ \t]*"', written):  # as `holdfast setup` wrote it before 0.2
                value = value.replace("\\$", "$")
            env.values[name] = value
            env.lines[name] = line
    return env


def dotenv_bindings(text: str) -> "list[Binding]":
    """The assignments and comments of a `.env` file, in order. Joined, their texts are the file."""
    if not text:
        return []
    from dotenv.parser import parse_stream  # noqa: PLC0415 - few homes have secrets in this file

    return [*parse_stream(StringIO(text))]


def mode_warnings(path: Path) -> list[str]:
    """Of a file with secrets."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:  # it was removed meanwhile
        return []
    if mode & 0o077:
        return [
            _(
                "{file} contains secrets and is open to other users (mode {mode:04o}):"
                " chmod 600 {file}"
            ).format(file=path, mode=mode)
        ]
    return []


def _line_error(path: Path, line: int) -> ConfigError:
    # The line itself is not shown: it may hold a secret.
    return config_error(
        Place(path, line),
        N_("this is not NAME=value, or a quote is not closed"),
        allowed="NAME=value, NAME='value', NAME=\"value\", export NAME=value, # …",
    )


def apply_variables(raw: RawConfig, dotenv: DotEnv, environ: Mapping[str, str]) -> None:
    """Override the file with every HOLDFAST_… variable; those of the process override `.env`."""
    every = sorted({*dotenv.values, *environ})
    given = [name for name in every if name.startswith(PREFIX) and name not in OTHER_VARIABLES]
    known = dict(_key_variables(raw, given)) if given else {}
    for name in given:
        origin = _origin(name, dotenv, environ)
        if name not in known:
            if (new := renamed_variable(name, prefix=PREFIX)) is not None:
                raise config_error(
                    origin,
                    N_("this variable is called {new} now"),
                    fix=N_("rename the variable: {new} instead of {old}"),
                    new=new,
                    old=name,
                )
            raise config_error(
                origin,
                N_("no key has this name"),
                nearest=closest_match(name, known),
                fix=N_("correct or unset the variable; `holdfast config schema` lists the keys"),
            )
        path, node = known[name]
        value = environ[name] if name in environ else dotenv.values[name]
        raw.set(path, _parse_variable(name, path, node, value, origin), origin=origin)


def variable_name(path: KeyPath) -> str:
    return PREFIX + "_".join(str(part) for part in path).upper().replace("-", "_")


def _key_variables(
    raw: RawConfig, given: Collection[str]
) -> Iterator[tuple[str, tuple[KeyPath, Node]]]:
    for section in settings_schema().fields:
        if isinstance(section.type, inspect.StructType):
            yield from _field_variables(section.type, (section.name,))
    for name in _mentioned_platforms(
        [each for each in given if each.startswith(_PLATFORMS_PREFIX)]
    ):
        yield from _platform_variables(raw, name, given)


def _mentioned_platforms(given: Collection[str]) -> list[str]:
    """The platforms whose keys these variables may be. Installed plugins are listed only if a
    variable belongs to no built-in platform: that takes longer than everything else here."""

    def mentioned(names: Iterable[str]) -> list[str]:
        prefixes = {name: f"{variable_name((PLATFORMS, name))}_" for name in names}
        return [name for name, own in prefixes.items() if any(g.startswith(own) for g in given)]

    built_in = mentioned(BUILT_IN_PLUGINS)
    known = tuple(f"{variable_name((PLATFORMS, name))}_" for name in built_in)
    return built_in if all(name.startswith(known) for name in given) else mentioned(plugin_names())


def _platform_variables(
    raw: RawConfig, name: str, given: Collection[str]
) -> Iterator[tuple[str, tuple[KeyPath, Node]]]:
    """The keys of a platform, and of those of its accounts that the file names."""
    plugin = plugin_for_table(raw, name)
    if plugin.settings is UnknownPluginSettings:
        yield from _unknown_plugin_variables(name, given)
    own = account_schema(plugin_schema(plugin))
    yield from _field_variables(own, (PLATFORMS, name))
    written: Any = raw.tree
    for part in (PLATFORMS, name, ACCOUNTS):
        written = written.get(part) if isinstance(written, dict) else None
    for account in written if isinstance(written, dict) else ():
        yield from _field_variables(own, (PLATFORMS, name, ACCOUNTS, account))


def _unknown_plugin_variables(
    name: str, given: Collection[str]
) -> Iterator[tuple[str, tuple[KeyPath, Node]]]:
    """A plugin that cannot be loaded may have any key."""
    prefix = f"{variable_name((PLATFORMS, name))}_"
    for variable in given:
        if variable.startswith(prefix):
            key = variable.removeprefix(prefix).lower()
            yield variable, ((PLATFORMS, name, key), inspect.StrType())


def _field_variables(
    node: inspect.StructType, path: KeyPath
) -> Iterator[tuple[str, tuple[KeyPath, Node]]]:
    for field in node.fields:
        key = (*path, field.name)
        yield variable_name(key), (key, field.type)


def _origin(name: str, dotenv: DotEnv, environ: Mapping[str, str]) -> str:
    if name in environ:
        return f"environment variable {name}"
    return f"{dotenv.path}, line {dotenv.lines[name]}, {name}"


def _parse_variable(name: str, path: KeyPath, node: Node, text: str, origin: str) -> Any:
    if is_secret_path(path) and text and not text.startswith(("env:", "file:")):
        # A variable may hold the secret itself; the key then refers to the variable.
        return f"env:{name}"
    node, optional = unwrap_optional(node)
    if optional and not text:
        return None
    try:
        return parse_value(node, text)
    except ValueError:
        raise _value_error(origin, node, text) from None


def parse_value(node: Node, text: str) -> Any:
    """The text as a value of that type. Raises `ValueError`."""
    match node:
        case inspect.BoolType():
            return _parse_bool(text)
        case inspect.IntType():
            return int(text)
        case inspect.FloatType():
            return float(text)
        case inspect.VarTupleType():
            return _parse_list(node, text)
    return text


def _parse_bool(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _parse_list(node: inspect.VarTupleType, text: str) -> Any:
    if text.lstrip().startswith("[") or isinstance(node.item_type, inspect.StructType):
        return json.loads(text or "[]")
    return [item.strip() for item in text.split(",") if item.strip()]


def _value_error(origin: str, node: Node, text: str) -> ConfigError:
    if isinstance(node, inspect.VarTupleType):
        # Not shown: a list of tables may hold a secret.
        return config_error(origin, N_("this is not a JSON array"), allowed=lambda: describe(node))
    return config_error(
        origin,
        N_("this value is not allowed"),
        found=repr(text),
        allowed=lambda: describe(node),
    )
