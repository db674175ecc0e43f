"""holdfast.toml as text: read, parsed, and searched for the line a key stands on."""

import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.errors import ConfigError, KeyPath, explain

LARGEST = 1_000_000  # bytes of a file of the configuration
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    text: str = ""
    tree: dict[str, Any] = msgspec.field(default_factory=dict)

    def line_of(self, path: KeyPath) -> int | None:
        """The line on which a key is written, or the nearest thing around it that is."""
        places = dict(reversed(list(_places(self.text))))
        for length in range(len(path), 0, -1):
            if path[:length] in places:
                return places[path[:length]]
        return None


def read_document(path: Path) -> Document:
    """The parsed file; one that is not there says nothing, and every default holds."""
    text = read_text(path)
    return Document(path=path) if text is None else parse_document(path, text)


def parse_document(path: Path, text: str) -> Document:
    """Raises `ConfigError` for whatever is no TOML, or more of it than any configuration is."""
    if len(text.encode()) > LARGEST:
        raise _too_large(path)
    try:
        return Document(path=path, text=text, tree=tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(path, str(error)) from None
    except ValueError:  # which it raises for nothing else
        fix = "write one that a key can hold"
        raise explain(str(path), "a number in it has thousands of digits", fix=fix) from None
    except RecursionError:
        fix = "no key holds more than a list of tables"
        raise explain(str(path), "lists or tables stand in each other to no end", fix=fix) from None


def read_text(path: Path) -> str | None:
    """None: there is no such file. Nothing is waited for, and no more is read than a file of the
    configuration can have: a gateway that runs reads whatever was put there."""
    try:
        return _content(path).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise explain(f"{path}, line {line}", "this is not UTF-8", fix="save it as UTF-8") from None
    except OSError as error:
        raise explain(
            str(path), f"it cannot be read: {error.strerror}", fix="mend its owner and mode"
        ) from None


def _content(path: Path) -> bytes:
    with open(path, "rb", opener=_open_at_once) as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise explain(
                str(path), "this is a pipe, which can be read once", fix="put a plain file there"
            )
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise _too_large(path)
    return content


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _too_large(path: Path) -> ConfigError:
    return explain(str(path), f"it is larger than {LARGEST:,} bytes", fix="keep it smaller")


def _no_toml(path: Path, message: str) -> ConfigError:
    place, what = _syntax_place(path, message), re.sub(r" [(]at .*[)]$", "", message)
    names = re.findall(r"'([^']*)'", what)
    table = ".".join(name if re.fullmatch(r"[\w-]+", name) else f'"{name}"' for name in names)
    if what.startswith("Cannot declare") and table:
        twice = f"this is not TOML: [{table}] stands here for the second time"
        return explain(place, twice, fix=f"put its keys under the first [{table}]")
    if what.startswith("Cannot overwrite"):
        twice = "this is not TOML: a key stands here for the second time"
        return explain(place, twice, fix="keep one of the two")
    fix = 'write each key as `name = value`, and put texts in "quotes"'
    return explain(place, f"this is not TOML: {what}", fix=fix)


def _syntax_place(path: Path, message: str) -> str:
    line = re.search(r"at line (\d+)", message)
    return f"{path}, line {line[1]}" if line else f"{path}, at its end"


def _places(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Every key and table header with its line; texts over several lines are passed over."""
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is not None:
            inside = None if inside in line else inside
            continue
        if header := _HEADER.match(line):
            table = _split(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *_split(key[1])), number
        inside = _opens(line)


def _opens(line: str) -> str | None:
    for quotes in ('"""', "'''"):
        if line.count(quotes) % 2:
            return quotes
    return None


def _split(name: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in name.split("."))
