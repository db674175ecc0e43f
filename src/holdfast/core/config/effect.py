"""The effect of a key: when a change of it holds, of every key that holdfast.toml can have."""

from collections.abc import Mapping
from enum import StrEnum

from holdfast.core.config.settings import PlatformSettings


class Effect(StrEnum):
    """What it takes for a changed key to hold."""

    NEXT_TURN = "next turn"  # nothing: a turn that runs keeps what it began with
    ACCOUNT = "its account"  # its account is connected anew, by itself, and no other
    RESTART = "restart"  # until then the old value stays in force

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS: Mapping[Effect, str] = {
    Effect.NEXT_TURN: "at the next turn",
    Effect.ACCOUNT: "at once, its account is connected anew",
    Effect.RESTART: "after a restart",
}

# Whole sections first, then single keys. What stands here is made once by a process: its sockets,
# its sandboxes, its files and what it was told by its supervisor. All else can be swapped.
_RESTART = frozenset({"runner", "backup", "browser", "otel"})
_RESTART_KEYS = frozenset(
    {
        "log.file_mb",
        "log.files",
        "gateway.host",
        "gateway.port",
        "gateway.supervisor",
        "gateway.crash_recovery",  # is asked for by a start alone
        "memory.providers",
    }
)
# The two that the process makes itself: their routes, and the token that is the gateway's own.
SERVED_HERE = frozenset({"api", "web"})
_ACCOUNTS = "accounts"
# The gateway reads these whenever it needs them; with all others the account's door was opened.
_OF_EVERY_ACCOUNT = frozenset(PlatformSettings.__struct_fields__) - {"enabled", _ACCOUNTS}


def effect_of(key: str) -> Effect:
    """Of a key as people write it: `model.name`, `platforms.telegram.accounts.work.token`,
    `model.fallbacks[0].name`. A table has the effect of the weightiest key that it could have."""
    section, _, rest = key.partition(".")
    if section == "platforms":
        return _of_platform(rest)
    restarts = section in _RESTART or _bare(key) in _RESTART_KEYS
    return Effect.RESTART if restarts else Effect.NEXT_TURN


def _of_platform(rest: str) -> Effect:
    name, *parts = rest.split(".")
    if parts[:1] == [_ACCOUNTS]:  # no name of an account has a dot in it
        parts = parts[2:]
    if parts and _bare(parts[0]) in _OF_EVERY_ACCOUNT:
        return Effect.NEXT_TURN
    return Effect.RESTART if name in SERVED_HERE else Effect.ACCOUNT


def _bare(key: str) -> str:
    """Without the place in a list."""
    return key.partition("[")[0]
