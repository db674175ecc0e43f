"""The values on their way to being settings, and where each of them came from."""

from collections.abc import Iterator
from typing import Any

from holdfast.config.document import ConfigDocument
from holdfast.config.errors import ConfigError, KeyPath, config_error, format_key, format_value


class RawConfig:
    """Owns the raw tree: the file's, with what the environment and the command line put over it."""

    def __init__(self, document: ConfigDocument) -> None:
        self._document = document
        self._origins: dict[KeyPath, str] = {}
        self.tree: dict[str, Any] = document.tree

    @property
    def text(self) -> str:
        """Of the file."""
        return self._document.text

    def set(self, path: KeyPath, value: object, *, origin: str) -> None:
        """Set one key. Where the file has something else than a table above it, nothing is
        done: the check will say so."""
        table: Any = self.tree
        for part in path[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                return
        table[path[-1]] = value
        self._origins[path] = origin

    def origins(self) -> dict[str, str]:
        """Where each key that somebody set was set, by its key path as people write it."""
        name = self._document.path.name
        return {
            format_key(path): self._origins.get(path, name) for path in _leaf_paths(self.tree, ())
        }

    def location_of(self, path: KeyPath) -> str:
        """The place a person has to look at to mend this key."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._origins:
                return self._origins[path[:length]]
        line = self._document.line_of(path)
        return f"{self._document.path}, line {line}" if line else str(self._document.path)

    def error(
        self,
        path: KeyPath,
        problem: str,
        *,
        value: object = None,
        allowed: str = "",
        nearest: str | None = None,
        fix: str = "",
    ) -> ConfigError:
        return config_error(
            self.location_of(path),
            f"{format_key(path)} {problem}",
            found=format_value(path, value) if value is not None else "",
            allowed=allowed,
            nearest=nearest,
            fix=fix,
        )


def _leaf_paths(node: dict[str, Any], path: KeyPath) -> Iterator[KeyPath]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _leaf_paths(value, (*path, name))
        else:
            yield (*path, name)
