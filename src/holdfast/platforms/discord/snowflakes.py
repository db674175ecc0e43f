"""Snowflakes: Discord's ids, which are times.

https://discord.com/developers/docs/reference#snowflakes: the upper bits are milliseconds since the
first of January 2015, so that of two ids the greater one is the later, whatever they name.
"""

_DISCORD_EPOCH_MS = 1_420_070_400_000  # milliseconds
_TIMESTAMP_SHIFT = 22


def snowflake_at(seconds: float) -> int:
    """The least id of that time, which is in seconds since the usual epoch."""
    return max(0, int(seconds * 1000) - _DISCORD_EPOCH_MS) << _TIMESTAMP_SHIFT


def snowflake_before(snowflake: int, *, seconds: float) -> int:
    return max(0, snowflake - (int(seconds * 1000) << _TIMESTAMP_SHIFT))
