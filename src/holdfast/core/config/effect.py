"""The effect of a key: when a change of it holds, of every key that holdfast.toml can have."""

from collections.abc import Mapping
from enum import StrEnum

from holdfast.core.config.settings import PlatformSettings


class ChangeEffect(StrEnum):
    """What it takes for a changed key to hold."""

    NEXT_TURN = "next turn"  # nothing: a turn that runs keeps what it began with
    ACCOUNT = "its account"  # its account is connected anew, by itself, and no other
    RESTART = "restart"  # until then the old value stays in force

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Mapping[ChangeEffect, str] = {
    ChangeEffect.NEXT_TURN: "at the next turn",
    ChangeEffect.ACCOUNT: "at once, its account is connected anew",
    ChangeEffect.RESTART: "after a restart",
}

# Whole sections first, then single keys. What stands here is made once by a process: its sockets,
# its sandboxes, its files and what it was told by its supervisor. All else can be swapped.
_RESTART_SECTIONS = frozenset({"runner", "backup", "browser", "otel"})
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
IN_PROCESS_PLATFORMS = frozenset({"api", "web"})
_ACCOUNTS = "accounts"
# The gateway reads these whenever it needs them; with all others the account's door was opened.
_COMMON_ACCOUNT_KEYS = frozenset(PlatformSettings.__struct_fields__) - {"enabled", _ACCOUNTS}


def change_effect(key: str) -> ChangeEffect:
    """Of a key as people write it: `model.name`, `platforms.telegram.accounts.work.token`,
    `model.fallbacks[0].name`. A table has the effect of the weightiest key that it could have."""
    section, _, rest = key.partition(".")
    if section == "platforms":
        return _platform_key_effect(rest)
    restarts = section in _RESTART_SECTIONS or _without_index(key) in _RESTART_KEYS
    return ChangeEffect.RESTART if restarts else ChangeEffect.NEXT_TURN


def _platform_key_effect(rest: str) -> ChangeEffect:
    name, *parts = rest.split(".")
    if parts[:1] == [_ACCOUNTS]:  # no name of an account has a dot in it
        parts = parts[2:]
    if parts and _without_index(parts[0]) in _COMMON_ACCOUNT_KEYS:
        return ChangeEffect.NEXT_TURN
    return ChangeEffect.RESTART if name in IN_PROCESS_PLATFORMS else ChangeEffect.ACCOUNT


def _without_index(key: str) -> str:
    """Without the place in a list."""
    return key.partition("[")[0]
