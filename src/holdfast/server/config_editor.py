"""Changes the configuration of a running gateway: edit, check, apply, roll back.

Imported when it is first used, not at a start.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from holdfast.config import Config, ConfigError, load
from holdfast.config.editor import ConfigEdit, edit_keys, replace_file
from holdfast.config.loader import read_current_text
from holdfast.core.config.settings import Settings
from holdfast.core.config.versions import (
    ConfigSource,
    ConfigStatus,
    ConfigVersion,
    ReloadResult,
    SupportsReload,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetConfiguration, ListConfigurations
from holdfast.server.api.views.config import (
    ConfigChange,
    ConfigChangeResult,
    ConfigVersionDetail,
    ConfigVersionList,
    ConfigView,
    ExpectedVersion,
    RollbackParams,
    config_view,
    revision_of,
    version_detail,
    version_view,
)


class StaleRead(HoldfastError):
    """The configuration changed since the client read it."""


class NoSuchConfigVersion(HoldfastError):
    """There is no configuration of that number."""


class LoadedConfigReloader(SupportsReload, Protocol):
    """Reloads the configuration: `config` is the last good one that was read."""

    @property
    def config(self) -> Config: ...


class ConfigEditor:
    """Owns the lock under which the file is changed, so that only one change is made at a time."""

    def __init__(
        self,
        reloader: LoadedConfigReloader,
        *,
        history: StoreReader,
        settings: Callable[[], Settings],
    ) -> None:
        """`settings`: the active ones."""
        self._reloader = reloader
        self._history = history
        self._settings = settings
        self._lock = asyncio.Lock()

    async def view(self) -> ConfigView:
        return await asyncio.to_thread(self._view, self._settings(), self._reloader.status)

    async def change(self, params: ConfigChange, *, by: str) -> ConfigChangeResult:
        """Raises `ConfigError`, with place and remedy, or `StaleRead`: then nothing is changed."""

        def edit() -> ConfigEdit:
            # Raises if the file is gone: else a few keys would become the whole file.
            read_current_text(self._reloader.config)
            values, unset = params.set, params.unset
            return edit_keys(self._home, values=values, unset=unset, check=self._check)

        return await self._apply(edit, params, by=by, source=ConfigSource.SET)

    async def reload(self, *, by: str) -> ReloadResult:
        """Apply the file as it is now. Raises `ConfigError`."""
        return await self._reloader.reload(by=by, source=ConfigSource.RELOAD)

    async def roll_back(self, params: RollbackParams, *, by: str) -> ConfigChangeResult:
        """Write the text of an earlier version to the file, if it is valid by the current rules."""
        version = await self._stored_version(params.to)

        def replace() -> ConfigEdit:
            return replace_file(self._home, version.text, check=self._check)

        return await self._apply(replace, params, by=by, source=ConfigSource.ROLLBACK)

    async def history(self, *, before: int | None, limit: int) -> ConfigVersionList:
        found = await self._history.read(ListConfigurations(before=before, limit=limit + 1))
        lines = [version_view(each, active=self._number) for each in found[:limit]]
        return ConfigVersionList(versions=lines, more=len(found) > limit)

    async def version(self, number: int, *, against: int | None) -> ConfigVersionDetail:
        """With the difference to `against`; None: to the version before it."""
        version = await self._stored_version(number)
        if against is not None:
            other: ConfigVersion | None = await self._stored_version(against)
        else:
            other = next(
                iter(await self._history.read(ListConfigurations(before=number, limit=1))), None
            )
        return await asyncio.to_thread(version_detail, version, other, active=self._number)

    async def _stored_version(self, number: int) -> ConfigVersion:
        version = await self._history.read(GetConfiguration(number=number))
        if version is None:
            raise NoSuchConfigVersion(
                "There is no configuration {number}; `holdfast config history` lists them.",
                number=number,
            )
        return version

    async def _apply(
        self,
        edit: Callable[[], ConfigEdit],
        expected: ExpectedVersion,
        *,
        by: str,
        source: ConfigSource,
    ) -> ConfigChangeResult:
        async with self._lock:
            done = await asyncio.to_thread(self._checked_edit, edit, expected)
            try:
                reloaded = await self._reloader.reload(by=by, source=source, before_read=done.write)
            except HoldfastError:
                # It was valid a moment ago. Whatever failed since, also storing the version, the
                # file must not differ from the active configuration because of us.
                await asyncio.to_thread(done.revert)
                raise
        return _change_result(done, reloaded)

    def _checked_edit(
        self, edit: Callable[[], ConfigEdit], expected: ExpectedVersion
    ) -> ConfigEdit:
        """Runs in a thread: it reads and checks files."""
        done = edit()
        revision = revision_of(done.before)
        if expected.number not in (None, self._number) or expected.revision not in (None, revision):
            raise StaleRead(
                "The configuration was changed after you read it; nothing was changed now. "
                "Reload it, and then make your change."
            )
        return done

    def _view(self, settings: Settings, status: ConfigStatus) -> ConfigView:
        config, text, problem = self._reloader.config, "", ""
        try:
            text = read_current_text(config)
            config = self._check(text)
        except ConfigError as error:
            problem = error.for_person()
        return config_view(config, text, settings=settings, status=status, problem=problem)

    def _check(self, text: str) -> Config:
        known = self._reloader.config
        return load(known.home, known.environ, overrides=known.overrides, text=text)

    @property
    def _number(self) -> int:
        return self._reloader.status.number

    @property
    def _home(self) -> Path:
        return self._reloader.config.home


def _change_result(done: ConfigEdit, reloaded: ReloadResult) -> ConfigChangeResult:
    return ConfigChangeResult(
        number=reloaded.number,
        changes=list(done.changes),
        accounts=list(reloaded.accounts),
        pending_restart=list(reloaded.pending_restart),
        warnings=list(reloaded.warnings),
    )
