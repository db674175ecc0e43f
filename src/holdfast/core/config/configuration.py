"""A configuration that is swapped while the gateway runs: what came of it, and who does it."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from holdfast.core.config.kept_configuration import ConfigSource


class ReloadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of reading the file again. Keys are as people write them; where nothing has
    changed, the number is the one that was in force already."""

    number: int
    changed: tuple[str, ...] = ()  # in force from now on, or waiting
    accounts: tuple[str, ...] = ()  # "platform:account": connected anew, added or let go
    pending_restart: tuple[str, ...] = ()  # keys that differ from what is in force until a restart
    warnings: tuple[str, ...] = ()  # what is allowed there, and unwise


class ConfigStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a running gateway tells of its configuration."""

    number: int = 0  # of the one in force; 0: it is not kept yet
    since: float = 0.0  # when it came into force
    pending_restart: tuple[str, ...] = ()  # keys that wait for a restart
    problem: str = ""  # why the file as it stands now cannot be used; the last good one holds


class SupportsReload(Protocol):
    @property
    def status(self) -> ConfigStatus: ...

    async def reload(
        self, *, by: str, source: ConfigSource, before_read: Callable[[], None] | None = None
    ) -> ReloadResult:
        """Read the file again and put it into force. Raises `ConfigError`, which says place and
        remedy: then what was in force still is. Several at a time are done one after the other.

        `first` is done in a thread when it is this one's turn: whoever writes the file there is
        the one who is told to have brought it, and not whoever saw it change.
        """
        ...
