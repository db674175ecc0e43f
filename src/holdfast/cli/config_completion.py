"""What a shell offers for `holdfast config set`: keys, and what one of them may be."""

from collections.abc import Sequence

from msgspec import inspect

from holdfast.config import ConfigError
from holdfast.config.keys import find_key, key_names


def offered(words: Sequence[str], incomplete: str) -> list[str]:
    """After an even number of words a key comes next; else a value of the last."""
    choices = _values(words[-1]) if len(words) % 2 else key_names()
    return [each for each in choices if each.startswith(incomplete)]


def _values(name: str) -> list[str]:
    try:
        node = find_key(name).node
    except ConfigError:
        return []
    if isinstance(node, inspect.BoolType):
        return ["true", "false"]
    if isinstance(node, inspect.EnumType):
        return [str(member.value) for member in node.cls]
    return []
