"""Errors for an unusable configuration: place, problem, found, allowed, nearest, fix."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import ENGLISH, _, use_catalogue

KeyPath = tuple[str | int, ...]


class Place(NamedTuple):
    """Where a person has to change something: a file or a variable, and the line of a file."""

    name: object
    line: int | None = None

    def __str__(self) -> str:
        if self.line is None:
            return str(self.name)
        return _("{file}, line {line}").format(file=self.name, line=self.line)


class ConfigError(HoldfastError):
    """The configuration cannot be used.

    The message, `allowed` and `fix` are templates that are filled with `values`: marked by `N_`,
    or functions that return a text in the language of the current context.
    """

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        found: str = "",
        allowed: str | Callable[[], str] = "",
        nearest: str | None = None,
        fix: str = "",
        **values: object,
    ) -> None:
        super().__init__(message, **values)
        self._place = place
        self._found = found
        self._allowed = allowed
        self._nearest = nearest
        self._fix = fix
        with use_catalogue(ENGLISH):
            self.args = (self.for_person(),)

    def for_person(self) -> str:
        problem = super().for_person()
        lines = [f"{self._place}: {problem}" if self._place else problem]
        if self._found:
            lines.append(_("  found:    {value}").format(value=self._found))
        if self._allowed:
            lines.append(_("  allowed:  {values}").format(values=self._fill(self._allowed)))
        if self._nearest:
            lines.append(_("  nearest:  did you mean `{name}`?").format(name=self._nearest))
        if self._fix:
            lines.append(_("  fix:      {remedy}").format(remedy=self._fill(self._fix)))
        from holdfast.core.secrets import mask_passwords  # noqa: PLC0415 - for an error alone

        # Masked here, because a third-party plugin writes its own errors, with the value in them.
        return mask_passwords("\n".join(lines))

    def _fill(self, part: str | Callable[[], str]) -> str:
        if callable(part):
            return part()
        return _(part).format_map(self._values) if self._values else _(part)


def config_error(
    place: Place | Path | str,
    message: str,
    *,
    found: str = "",
    allowed: str | Callable[[], str] = "",
    nearest: str | None = None,
    fix: str = "",
    **values: object,
) -> ConfigError:
    return ConfigError(
        message,
        place=place if isinstance(place, Place) else Place(place),
        found=found,
        allowed=allowed,
        nearest=nearest,
        fix=fix,
        **values,
    )


def format_key(path: KeyPath) -> str:
    """A key path as people write it: `model.fallbacks[0].name`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def is_secret_path(path: KeyPath) -> bool:
    from holdfast.core.config.settings import is_secret_key  # noqa: PLC0415 - slow, and seldom used

    return bool(path) and is_secret_key(str(path[-1]))


def format_value(path: KeyPath, value: object) -> str:
    """A value for an error message: short, and never a secret."""
    if is_secret_path(path):
        return _("a value that is not shown because it may be a secret")
    if isinstance(value, dict):
        return _("a table")
    import json  # noqa: PLC0415 - for an error alone

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "…"


def closest_match(name: str, names: Iterable[str]) -> str | None:
    import difflib  # noqa: PLC0415 - for an error alone

    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return matches[0] if matches else None
