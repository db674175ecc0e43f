"""What a shell offers for `holdfast config set`: keys, and what one of them may be."""

from collections.abc import Sequence

from msgspec import inspect

from holdfast.config import ConfigError
from holdfast.config.doors import plugin_names
from holdfast.config.keys import find_key, platform_keys, section_keys
from holdfast.config.platforms import PLATFORMS


def complete_words(words: Sequence[str], incomplete: str) -> list[str]:
    """After an even number of words a key comes next; else a value of the last."""
    choices = _key_values(words[-1]) if len(words) % 2 else _key_names(incomplete)
    return [each for each in choices if each.startswith(incomplete)]


def _key_names(incomplete: str) -> list[str]:
    """Of platforms only the names, until one of them is written: each brings a library."""
    section, _, rest = incomplete.partition(".")
    name, dot, _ = rest.partition(".")
    if section == PLATFORMS and dot:
        return platform_keys(name)
    return [*section_keys(), *(f"{PLATFORMS}.{name}." for name in plugin_names())]


def _key_values(name: str) -> list[str]:
    try:
        node = find_key(name).node
    except ConfigError:
        return []
    if isinstance(node, inspect.BoolType):
        return ["true", "false"]
    if isinstance(node, inspect.EnumType):
        return [str(member.value) for member in node.cls]
    return []
