"""Snowflakes: Discord's ids, which are times.

https://discord.com/developers/docs/reference#snowflakes: the upper bits are milliseconds since the
first of January 2015, so that of two ids the greater one is the later, whatever they name.
"""

_EPOCH = 1_420_070_400_000  # milliseconds
_BITS = 22


def at(seconds: float) -> int:
    """The least id of that time, which is in seconds since the usual epoch."""
    return max(0, int(seconds * 1000) - _EPOCH) << _BITS


def earlier(snowflake: int, *, seconds: float) -> int:
    return max(0, snowflake - (int(seconds * 1000) << _BITS))
