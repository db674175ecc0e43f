"""Reloading: the file is read again, and what it says is put into force without a restart."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.config import Config, ConfigError
from holdfast.config.loading import load_again
from holdfast.core.config.configuration import ConfigurationFacts, Reloaded
from holdfast.core.config.kept_configuration import (
    ConfigurationSource,
    KeptConfiguration,
    NewConfiguration,
)
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ports.door import BUILT_IN
from holdfast.core.ports.protocols import Clock, NewId, Platform
from holdfast.core.turns.subagent import HOUSE
from holdfast.gateway.agents.outfit import Outfit
from holdfast.gateway.gateway import Gateway
from holdfast.models.target import BadTarget
from holdfast.service.agent_config import Outfitting
from holdfast.service.doors import identities, open_door
from holdfast.system.credential_locks import AccountClaims

if TYPE_CHECKING:
    from holdfast.service.changes import Changes

log = logging.getLogger(__name__)

_Account = tuple[str, str]
_BEFORE = "the file, changed before this start"


class Keeping(Protocol):
    """What is used of the store here."""

    def keep_configuration(self, new: NewConfiguration) -> Awaitable[int]: ...
    async def configurations(
        self, *, before: int | None = None, limit: int
    ) -> list[KeptConfiguration]: ...


class Reloader:
    """Owns the configuration that is in force: the last good one that was read, its number, and
    what is wrong with the file where something is. What needs a restart stays as this process
    began with it, and is told to wait. A start goes by the file, and by nothing that is kept here.
    """

    def __init__(
        self,
        config: Config,
        *,
        gateway: Gateway,
        outfitting: Outfitting,
        keeping: Keeping,
        claims: AccountClaims,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self.config = config
        self._began_with = config
        self._gateway = gateway
        self._outfitting = outfitting
        self._keeping = keeping
        self._claims = claims
        self._clock = clock
        self._new_id = new_id
        self._turn = asyncio.Lock()
        self.facts = ConfigurationFacts(since=clock.now())

    async def keep_beginning(self) -> None:
        """What this process began with gets its number; to be called once, when it is ready."""
        try:
            async with self._turn:
                await self._keep_beginning()
        except StoreError as error:  # the next change keeps it, before its own
            log.warning("The configuration is not kept: %s", error, extra={"action": "config_kept"})

    async def reload(
        self, *, by: str, source: ConfigurationSource, first: Callable[[], None] | None = None
    ) -> Reloaded:
        """As `core.configuration.Reloading` promises it."""
        async with self._turn:
            await self._keep_beginning()
            if first is not None:
                await asyncio.to_thread(first)
            try:
                new = await asyncio.to_thread(load_again, self.config)
                return await self._take(new, by=by, source=source)
            except ConfigError as error:
                if first is None:  # else whoever wrote it puts it back, and is told
                    self._refused(str(error))
                raise

    async def take_over(self, *, by: str, source: ConfigurationSource) -> None:
        """The same for who has nobody to tell: what is wrong is in the log, and in `facts`."""
        try:
            await self.reload(by=by, source=source)
        except ConfigError:
            pass  # told already, and until it is right
        except HoldfastError as error:
            about = {"action": "config_unread"}
            log.error("The configuration could not be read again: %s", error, extra=about)

    async def _keep_beginning(self) -> None:
        """Whoever comes first does it, so that a change right after the start does not hide it."""
        if self.facts.number:
            return
        began, start = self._began_with, ConfigurationSource.START
        by, changed = await self._brought(began.text)
        number = await self._keep(began, by=by, source=start, changed=changed)
        self._tell(msgspec.structs.replace(self.facts, number=number))

    async def _brought(self, text: str) -> tuple[str, tuple[str, ...]]:
        """By what this process has another configuration than the last one, and the keys that the
        file speaks of otherwise. Who wrote them is not known: nobody was there to see it."""
        last = await self._keeping.configurations(limit=1)
        if not last or last[0].text == text:
            return "start", ()
        from holdfast.config.editor import changed_keys  # noqa: PLC0415 - few starts need it

        return _BEFORE, changed_keys(last[0].text, text)

    async def _take(self, new: Config, *, by: str, source: ConfigurationSource) -> Reloaded:
        from holdfast.service.changes import changes  # noqa: PLC0415 - no start needs it

        found = changes(self.config, new, began_with=self._began_with)
        opened = await self._opened(new, found.accounts.put)
        outfit = await self._outfit(new, opened, gone=found.accounts.gone)
        number = await self._keep(new, by=by, source=source, changed=found.keys)
        if found.keys:
            self._put_into_force(new, outfit, opened, gone=found.accounts.gone)
        if self.facts.problem:
            log.info("The configuration is in order again.", extra={"action": "config_mended"})
        since = self._clock.now() if found.keys else self.facts.since
        self.config = new
        self._tell(ConfigurationFacts(number=number, since=since, waits=found.waits))
        _log(number, found, new.warnings, by=by)
        return Reloaded(
            number=number,
            changed=found.keys,
            accounts=found.accounts.names,
            waits=found.waits,
            warnings=new.warnings,
        )

    async def _opened(self, new: Config, wanted: Iterable[_Account]) -> list[Platform]:
        """Nothing is connected by this. What a door logs on its way names no secret of it."""
        self._gateway.house.redact.learn(new.secrets.values())
        opened = []
        for name, account in wanted:
            await asyncio.to_thread(_imported, name)
            settings = new.settings.account(name, account)
            assert settings is not None, "an account that is set up anew is configured"
            platform = open_door(
                new, name, account, settings=settings, clock=self._clock, new_id=self._new_id
            )
            if platform is not None:
                opened.append(platform)
        return opened

    async def _outfit(
        self, new: Config, opened: Sequence[Platform], *, gone: Sequence[_Account]
    ) -> Outfit:
        from holdfast.core.config.differences import held_back  # noqa: PLC0415 - no start needs it

        outside = (door for door in self._gateway.house.doors if door.name != HOUSE)
        doors = {(door.name, door.account): door for door in (*outside, *opened)}
        try:
            return self._outfitting.outfit(
                new,
                settings=held_back(new.settings, self._began_with.settings),
                model=await self._outfitting.model_of(new),
                platforms=[door for key, door in doors.items() if key not in gone],
            )
        except BadTarget as error:
            raise ConfigError(str(error)) from None

    def _put_into_force(
        self, new: Config, outfit: Outfit, opened: Sequence[Platform], *, gone: Sequence[_Account]
    ) -> None:
        """Without an await: nobody sees half of it."""
        self._claims.know(identities(new))
        self._outfitting.keep(outfit, by=new.settings.model)
        self._gateway.adopt(outfit)
        for platform in opened:
            self._gateway.accounts.put(platform)
        for name, account in gone:
            self._gateway.accounts.remove(name, account)

    async def _keep(
        self,
        config: Config,
        *,
        by: str,
        source: ConfigurationSource,
        changed: tuple[str, ...] = (),
    ) -> int:
        return await self._keeping.keep_configuration(
            NewConfiguration(
                at=self._clock.now(),
                by=by,
                source=source,
                text=config.text,
                changed=changed,
                signature=config.signature,
            )
        )

    def _refused(self, problem: str) -> None:
        if problem != self.facts.problem:  # it is told once, however often the file is looked at
            log.error(
                "The configuration cannot be used as it stands, so the last good one stays in "
                "force. %s",
                problem,
                extra={"action": "config_refused"},
            )
        self._tell(msgspec.structs.replace(self.facts, problem=problem))

    def _tell(self, facts: ConfigurationFacts) -> None:
        if facts != self.facts:
            self.facts = facts
            self._gateway.house.feeds.stirred()


def _imported(name: str) -> None:
    """In a thread, since some libraries take half a second; what is missing is told by the door."""
    module, _, _ = BUILT_IN.get(name, "").partition(":")
    with suppress(ImportError, ValueError):
        import_module(f"{module.rpartition('.')[0]}.platform")


def _log(number: int, found: "Changes", warnings: Sequence[str], *, by: str) -> None:
    if not found.keys:
        return
    log.info(
        "Configuration %d is in force, by %s; changed: %s.",
        number,
        by,
        ", ".join(found.keys),
        extra={"action": "config_in_force"},
    )
    if found.waits:
        waits = ", ".join(found.waits)
        log.warning("Waits for a restart: %s.", waits, extra={"action": "config_waits"})
    for warning in warnings:
        log.warning("%s", warning, extra={"action": "config_warning"})
