"""Configuring a gateway that runs: its file is changed, one change at a time, and taken over."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from holdfast.config import Config, ConfigError, load
from holdfast.config.editor import Edited, edited, replaced
from holdfast.config.loading import text_now
from holdfast.core.config.configuration import ConfigurationFacts, Reloaded, Reloading
from holdfast.core.config.kept_configuration import ConfigurationSource, KeptConfiguration
from holdfast.core.config.settings import Settings
from holdfast.core.errors import HoldfastError
from holdfast.server.api.views.configuration_views import (
    ConfigChange,
    ConfigChanged,
    ConfigurationList,
    ConfigurationView,
    ConfigView,
    ReadAt,
    RollbackAsked,
    compared,
    config_view,
    line_of,
    revision_of,
)


class StaleRead(HoldfastError):
    """The configuration is not any more what somebody has looked at."""


class NoSuchNumber(HoldfastError):
    """No configuration of that number was ever in force."""


class Kept(Protocol):
    """Those that were in force."""

    async def configurations(
        self, *, before: int | None = None, limit: int
    ) -> list[KeptConfiguration]: ...
    async def configuration(self, number: int) -> KeptConfiguration | None: ...


class Swapping(Reloading, Protocol):
    """Who swaps configurations: `config` is the last good one that was read."""

    @property
    def config(self) -> Config: ...


class Configuring:
    """Owns the turn of whoever changes the file: nobody writes it while another does."""

    def __init__(self, swapping: Swapping, *, kept: Kept, settings: Callable[[], Settings]) -> None:
        """`settings`: those in force."""
        self._swapping = swapping
        self._kept = kept
        self._settings = settings
        self._turn = asyncio.Lock()

    async def view(self) -> ConfigView:
        return await asyncio.to_thread(self._view, self._settings(), self._swapping.facts)

    async def change(self, asked: ConfigChange, *, by: str) -> ConfigChanged:
        """Raises `ConfigError`, with place and remedy, or `StaleRead`: then nothing is changed."""

        def edit() -> Edited:
            text_now(self._swapping.config)  # or a few keys would be all that the file says
            values, unset = asked.set, asked.unset
            return edited(self._home, values=values, unset=unset, check=self._check)

        return await self._apply(edit, asked, by=by, source=ConfigurationSource.SET)

    async def reload(self, *, by: str) -> Reloaded:
        """What stands in the file is put into force. Raises `ConfigError`."""
        return await self._swapping.reload(by=by, source=ConfigurationSource.RELOAD)

    async def roll_back(self, asked: RollbackAsked, *, by: str) -> ConfigChanged:
        """That text becomes the file's, if it is in order by the rules of today."""
        kept = await self._one(asked.to)

        def replace() -> Edited:
            return replaced(self._home, kept.text, check=self._check)

        return await self._apply(replace, asked, by=by, source=ConfigurationSource.ROLLBACK)

    async def history(self, *, before: int | None, limit: int) -> ConfigurationList:
        found = await self._kept.configurations(before=before, limit=limit + 1)
        lines = [line_of(each, in_force=self._number) for each in found[:limit]]
        return ConfigurationList(configurations=lines, more=len(found) > limit)

    async def one(self, number: int, *, against: int | None) -> ConfigurationView:
        """Held against another; None: against the one before it."""
        kept = await self._one(number)
        if against is not None:
            other: KeptConfiguration | None = await self._one(against)
        else:
            other = next(iter(await self._kept.configurations(before=number, limit=1)), None)
        return await asyncio.to_thread(compared, kept, other, in_force=self._number)

    async def _one(self, number: int) -> KeptConfiguration:
        kept = await self._kept.configuration(number)
        if kept is None:
            raise NoSuchNumber(
                f"there is no configuration {number}; `holdfast config history` has all."
            )
        return kept

    async def _apply(
        self,
        edit: Callable[[], Edited],
        read_at: ReadAt,
        *,
        by: str,
        source: ConfigurationSource,
    ) -> ConfigChanged:
        async with self._turn:
            done = await asyncio.to_thread(self._edited, edit, read_at)
            try:
                reloaded = await self._swapping.reload(by=by, source=source, first=done.write)
            except HoldfastError:
                # It was in order a moment ago. Whatever has come in between, also that it cannot
                # be kept: what is in force and what stands in the file do not part by our doing.
                await asyncio.to_thread(done.put_back)
                raise
        return _changed(done, reloaded)

    def _edited(self, edit: Callable[[], Edited], read_at: ReadAt) -> Edited:
        """In a thread: it reads and checks."""
        done = edit()
        revision = revision_of(done.before)
        if read_at.number not in (None, self._number) or read_at.revision not in (None, revision):
            raise StaleRead(
                "the configuration was changed since you looked at it, and nothing was done: "
                "look at it again, and then change it."
            )
        return done

    def _view(self, settings: Settings, facts: ConfigurationFacts) -> ConfigView:
        config, text, problem = self._swapping.config, "", ""
        try:
            text = text_now(config)
            config = self._check(text)
        except ConfigError as error:
            problem = str(error)
        return config_view(config, text, settings=settings, facts=facts, problem=problem)

    def _check(self, text: str) -> Config:
        known = self._swapping.config
        return load(known.home, known.environ, overrides=known.overrides, text=text)

    @property
    def _number(self) -> int:
        return self._swapping.facts.number

    @property
    def _home(self) -> Path:
        return self._swapping.config.home


def _changed(done: Edited, reloaded: Reloaded) -> ConfigChanged:
    return ConfigChanged(
        number=reloaded.number,
        changes=list(done.changes),
        accounts=list(reloaded.accounts),
        waits=list(reloaded.waits),
        warnings=list(reloaded.warnings),
    )
