"""Errors for an unusable configuration: place, problem, found, allowed, nearest, fix."""

from collections.abc import Iterable

from holdfast.core.errors import HoldfastError

KeyPath = tuple[str | int, ...]


class ConfigError(HoldfastError):
    """The configuration cannot be used: the place, what was found, and what is allowed."""


def config_error(
    where: str,
    problem: str,
    *,
    found: str = "",
    allowed: str = "",
    nearest: str | None = None,
    fix: str = "",
) -> ConfigError:
    lines = [f"{where}: {problem}"]
    if found:
        lines.append(f"  found:    {found}")
    if allowed:
        lines.append(f"  allowed:  {allowed}")
    if nearest:
        lines.append(f"  nearest:  did you mean `{nearest}`?")
    if fix:
        lines.append(f"  fix:      {fix}")
    from holdfast.core.secrets import mask_passwords  # noqa: PLC0415 - for an error alone

    # Masked here, because a third-party plugin writes its own errors, with the value in them.
    return ConfigError(mask_passwords("\n".join(lines)))


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
        return "a value that is not shown, for it may be a secret"
    if isinstance(value, dict):
        return "a table"
    import json  # noqa: PLC0415 - for an error alone

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "…"


def closest_match(name: str, names: Iterable[str]) -> str | None:
    import difflib  # noqa: PLC0415 - for an error alone

    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return matches[0] if matches else None
