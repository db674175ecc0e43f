"""holdfast.toml as text and as a raw tree: parsed, located by line, and overlaid."""

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.errors import (
    ConfigError,
    KeyPath,
    Place,
    config_error,
    format_key,
    format_value,
)
from holdfast.core.text.translation import N_

MAX_FILE_BYTES = 1_000_000  # of each configuration file
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


class ConfigDocument(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    text: str = ""
    tree: dict[str, Any] = msgspec.field(default_factory=dict)

    def line_of(self, path: KeyPath) -> int | None:
        """The line of a key, or of the innermost table around it."""
        lines = dict(reversed(list(key_lines(self.text))))
        for length in range(len(path), 0, -1):
            if path[:length] in lines:
                return lines[path[:length]]
        return None


def read_document(path: Path) -> ConfigDocument:
    """The parsed file; a missing one is empty, so that every default applies."""
    text = read_text(path)
    return ConfigDocument(path=path) if text is None else parse_document(path, text)


def parse_document(path: Path, text: str) -> ConfigDocument:
    """Raises `ConfigError` for invalid TOML and for a text that is too large."""
    if len(text.encode()) > MAX_FILE_BYTES:
        raise _too_large(path)
    try:
        return ConfigDocument(path=path, text=text, tree=tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, str(error)) from None
    except ValueError:  # only raised for this
        raise config_error(
            path, N_("a number has thousands of digits"), fix=N_("write a smaller number")
        ) from None
    except RecursionError:
        raise config_error(
            path,
            N_("lists or tables are nested too deeply"),
            fix=N_("no key has more than a list of tables; remove the inner ones"),
        ) from None


def read_text(path: Path) -> str | None:
    """None: there is no such file. Never blocks, and reads a limited size: the file may be
    anything."""
    try:
        return _read_bounded(path).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise config_error(
            Place(path, line), N_("this is not UTF-8"), fix=N_("save the file as UTF-8")
        ) from None
    except OSError as error:
        raise config_error(
            path,
            N_("it cannot be read: {error}"),
            fix=N_("correct its owner and mode"),
            error=error.strerror,
        ) from None


def _read_bounded(path: Path) -> bytes:
    with open(path, "rb", opener=_open_nonblocking) as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise config_error(
                path,
                N_("this is a pipe, which can be read only once"),
                fix=N_("replace it by a regular file"),
            )
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _too_large(path)
    return content


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _too_large(path: Path) -> ConfigError:
    return config_error(
        path,
        N_("it is larger than {limit:,} bytes"),
        fix=N_("make it smaller"),
        limit=MAX_FILE_BYTES,
    )


def _syntax_error(path: Path, message: str) -> ConfigError:
    location, what = _syntax_error_location(path, message), re.sub(r" [(]at .*[)]$", "", message)
    names = re.findall(r"'([^']*)'", what)
    table = ".".join(name if re.fullmatch(r"[\w-]+", name) else f'"{name}"' for name in names)
    if what.startswith("Cannot declare") and table:
        return config_error(
            location,
            N_("this is not TOML: [{table}] is defined twice"),
            fix=N_("move its keys to the first [{table}]"),
            table=table,
        )
    if what.startswith("Cannot overwrite"):
        return config_error(
            location,
            N_("this is not TOML: a key is defined twice"),
            fix=N_("remove one of the two"),
        )
    return config_error(
        location,
        N_("this is not TOML: {problem}"),
        fix=N_('write each key as `name = value`, and put texts in "quotes"'),
        problem=what,
    )


def _syntax_error_location(path: Path, message: str) -> Place:
    line = re.search(r"at line (\d+)", message)
    return Place(path, int(line[1])) if line else Place(path)


def key_lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Every key and table header with its line; multi-line strings are skipped."""
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is not None:
            inside = None if inside in line else inside
            continue
        if header := _HEADER.match(line):
            table = _split_key(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *_split_key(key[1])), number
        inside = _opened_string(line)


def _opened_string(line: str) -> str | None:
    for quotes in ('"""', "'''"):
        if line.count(quotes) % 2:
            return quotes
    return None


def _split_key(name: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


class RawConfig:
    """Owns the unchecked values (of the file, overlaid by environment and command line) and the
    origin of each."""

    def __init__(self, document: ConfigDocument) -> None:
        self._document = document
        self._origins: dict[KeyPath, str] = {}
        self.tree: dict[str, Any] = document.tree

    @property
    def text(self) -> str:
        """The text of the file."""
        return self._document.text

    def set(self, path: KeyPath, value: object, *, origin: str) -> None:
        """Set one key. Does nothing where the file has something other than a table above it: the
        check reports that."""
        table: Any = self.tree
        for part in path[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                return
        table[path[-1]] = value
        self._origins[path] = origin

    def origins(self) -> dict[str, str]:
        """The origin of each key that is set, by its key path as people write it."""
        name = self._document.path.name
        return {
            format_key(path): self._origins.get(path, name) for path in _leaf_paths(self.tree, ())
        }

    def location_of(self, path: KeyPath) -> Place:
        """Where a person has to change this key."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._origins:
                return Place(self._origins[path[:length]])
        return Place(self._document.path, self._document.line_of(path))

    def error(
        self,
        path: KeyPath,
        message: str,
        *,
        value: object = None,
        allowed: str | Callable[[], str] = "",
        nearest: str | None = None,
        fix: str = "",
        **values: object,
    ) -> ConfigError:
        """`{key}` in the templates is the name of the key."""
        return config_error(
            self.location_of(path),
            message,
            found=format_value(path, value) if value is not None else "",
            allowed=allowed,
            nearest=nearest,
            fix=fix,
            key=format_key(path),
            **values,
        )


def _leaf_paths(node: dict[str, Any], path: KeyPath) -> Iterator[KeyPath]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _leaf_paths(value, (*path, name))
        else:
            yield (*path, name)
