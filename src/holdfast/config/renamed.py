"""Keys and values of the configuration that have a new name, and the new name of each.

The loader refuses an old name and says the new one: a key never has two names. Configurations that
were saved under an old name are migrated when they are rolled back to.
"""

import re
import tomllib
from typing import Any

from holdfast.config.document import key_lines
from holdfast.config.errors import KeyPath

# In a pattern, `*` is any name. Accounts of a platform have the keys of its own table.
_RENAMED_KEYS: dict[tuple[str, ...], str] = {
    ("model", "sight"): "vision",
    ("platforms", "matrix", "receipts"): "read_receipts",
    ("platforms", "irc", "people"): "identify_by",
    ("platforms", "email", "hourly"): "hourly_limit",
}
_RENAMED_VALUES: dict[tuple[str, ...], dict[str, str]] = {
    ("platforms", "*", "chats", "*", "answers"): {"meant": "addressed"},
    ("runner", "network"): {"full": "host"},
    # Where no sandbox works, "auto" ran commands without one.
    ("runner", "sandbox"): {"auto": "required"},
}


def renamed_key(path: KeyPath) -> str | None:
    """The new name of the last part of a key path; None: it was not renamed."""
    return next((new for old, new in _RENAMED_KEYS.items() if _matches(old, path)), None)


def renamed_value(path: KeyPath, value: object) -> str | None:
    """The new name of a value of this key; None: it was not renamed."""
    for pattern, values in _RENAMED_VALUES.items():
        if isinstance(value, str) and _matches(pattern, path):
            return values.get(value)
    return None


def renamed_variable(name: str, *, prefix: str) -> str | None:
    """The new name of the variable of a renamed key: HOLDFAST_MODEL_VISION for …_SIGHT."""
    for (*table, key), new in _RENAMED_KEYS.items():
        begin = f"{prefix}{'_'.join(table)}_".upper()
        account = rf"(?:{re.escape(begin)}ACCOUNTS_\w+_|{re.escape(begin)})"
        if found := re.fullmatch(rf"({account}){key.upper()}", name):
            return f"{found[1]}{new.upper()}"
    return None


def migrate_text(text: str) -> str:
    """A saved holdfast.toml with every renamed key and value under its new name; comments and order
    stay.

    The result is read back and compared with the values that it must have. Where an edit of the
    lines does not lead there (a key in an inline table, for example), the text is returned as it
    was: the check that follows refuses it and names the new key.
    """
    try:
        expected = tomllib.loads(text)
    except (ValueError, RecursionError):  # the check that follows says what is wrong with it
        return text
    if not _rename_in(expected, ()):
        return text
    lines = text.splitlines(keepends=True)
    for path, number in key_lines(text):
        lines[number - 1] = _migrate_line(lines[number - 1], path)
    migrated = "".join(lines)
    try:
        return migrated if tomllib.loads(migrated) == expected else text
    except ValueError:
        return text


def _migrate_line(line: str, path: KeyPath) -> str:
    name, equals, value = line.partition("=")
    if not equals:  # the header of a table
        return line
    if (new := renamed_key(path)) is not None:
        old = re.escape(str(path[-1]))
        return re.sub(rf"{old}(?=[\"']?\s*$)", new, name) + equals + value
    written = re.match(r"(\s*[\"'])(\w+)(?=[\"'])", value)
    if written and (new := renamed_value(path, written[2])) is not None:
        return f"{name}={written[1]}{new}{value[written.end() :]}"
    return line


def _rename_in(table: dict[str, Any], path: KeyPath) -> bool:
    """Renames in the tree itself; False: nothing in it has an old name."""
    changed = False
    for name, value in list(table.items()):
        own = (*path, name)
        if isinstance(value, dict):
            changed |= _rename_in(value, own)
        elif (new := renamed_key(own)) is not None and new not in table:
            table[new] = table.pop(name)
            changed = True
        elif (new := renamed_value(own, value)) is not None:
            table[name] = new
            changed = True
    return changed


def _matches(pattern: tuple[str, ...], path: KeyPath) -> bool:
    if path[:1] == ("platforms",) and path[2:3] == ("accounts",):
        path = (*path[:2], *path[4:])
    return len(path) == len(pattern) and all(
        part in ("*", own) for part, own in zip(pattern, path, strict=True)
    )
