"""Reloads the configuration without a restart: on request, or when the file changes."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.config import Config, ConfigError
from holdfast.config.loader import ConfigFingerprint, config_files, fingerprint, reload_config
from holdfast.config.platforms import BUILT_IN_PLUGINS
from holdfast.core.config.versions import (
    ConfigSource,
    ConfigStatus,
    NewConfigVersion,
    ReloadResult,
)
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.ports.store import StoreReader, StoreWriter
from holdfast.core.ports.store_queries import ListConfigurations
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.agents.factory import AgentConfig
from holdfast.gateway.app import Gateway
from holdfast.models.target import InvalidTarget
from holdfast.service.agent_config import AgentConfigBuilder
from holdfast.service.platforms import credential_identities, open_platform
from holdfast.system.credential_locks import FileCredentialLocks
from holdfast.system.linux import FileWatch, WatchUnavailable
from holdfast.system.tls import load_trust

if TYPE_CHECKING:
    from holdfast.service.config_changes import ConfigChanges

log = logging.getLogger(__name__)


_AccountKey = tuple[str, str]
_CHANGED_BEFORE_START = "the file, changed before this start"
SETTLE_SECONDS = 0.3  # without a change before a reload: an editor writes in several steps
_START_DELAY = 1.0  # seconds: a start must not wait for the watch


class ConfigVersionStore(StoreWriter, StoreReader, Protocol):
    """The part of the store that is used here."""


class Reloader:
    """Owns the live configuration: the last valid one that was read, its number, and the problem of
    the file, if it has one. Keys that need a restart keep the values of the start, and are reported
    as pending. A start reads the file only, never the versions that are saved here.
    """

    def __init__(
        self,
        config: Config,
        *,
        gateway: Gateway,
        agent_configs: AgentConfigBuilder,
        versions: ConfigVersionStore,
        credential_locks: FileCredentialLocks,
        clock: Clock,
        new_id: IdFactory,
    ) -> None:
        self.config = config
        self._start_config = config
        self._gateway = gateway
        self._agent_configs = agent_configs
        self._versions = versions
        self._credential_locks = credential_locks
        self._clock = clock
        self._new_id = new_id
        self._reload_lock = asyncio.Lock()
        self.status = ConfigStatus(since=clock.now())

    async def record_start_config(self) -> None:
        """Save the configuration of the start as a version; called once, when ready."""
        try:
            async with self._reload_lock:
                await self._record_start_config()
        except StoreError as error:  # the next change saves it, before its own version
            log.warning(
                "Could not save the configuration of the start as a version: %s; the next change "
                "saves it",
                error,
                extra={"action": "config_not_saved"},
            )

    async def reload(
        self, *, by: str, source: ConfigSource, before_read: Callable[[], None] | None = None
    ) -> ReloadResult:
        """Read the file and apply it. Raises `ConfigError` for an invalid file, which changes
        nothing. `before_read` runs in a thread, right before the file is read."""
        async with self._reload_lock:
            await self._record_start_config()
            if before_read is not None:
                await asyncio.to_thread(before_read)
            try:
                new = await asyncio.to_thread(reload_config, self.config)
                return await self._apply(new, by=by, source=source)
            except ConfigError as error:
                if before_read is None:  # otherwise the caller restores the file it has written
                    self._report_problem(str(error))
                raise

    async def reload_and_log(self, *, by: str, source: ConfigSource) -> None:
        """Like `reload`, but problems go to the log and to `status` instead of the caller."""
        try:
            await self.reload(by=by, source=source)
        except ConfigError:
            pass  # reported already, and until the file is valid
        except HoldfastError as error:
            log.error(
                "Could not reload the configuration, the last valid one stays in use: %s",
                error,
                extra={"action": "config_reload_failed"},
            )

    async def _record_start_config(self) -> None:
        """Saves the configuration of the start. The first caller saves it, so that a change right
        after the start does not hide it."""
        if self.status.number:
            return
        config = self._start_config
        by, changed = await self._start_changes(config.text)
        number = await self._record(config, by=by, source=ConfigSource.START, changed=changed)
        self._set_status(msgspec.structs.replace(self.status, number=number))

    async def _start_changes(self, text: str) -> tuple[str, tuple[str, ...]]:
        """`by` and the changed keys of the version for the start. If the file was changed while no
        gateway ran, it is not known who changed it."""
        last = await self._versions.read(ListConfigurations(limit=1))
        if not last or last[0].text == text:
            return "start", ()
        from holdfast.config.editor import changed_keys  # noqa: PLC0415 - few starts need it

        return _CHANGED_BEFORE_START, changed_keys(last[0].text, text)

    async def _apply(self, new: Config, *, by: str, source: ConfigSource) -> ReloadResult:
        from holdfast.service.config_changes import compare_configs  # noqa: PLC0415 - no start needs it

        found = compare_configs(self.config, new, start_config=self._start_config)
        opened = await self._open_platforms(new, found.accounts.opened)
        agent_config = await self._build_agent_config(new, opened, removed=found.accounts.removed)
        number = await self._record(new, by=by, source=source, changed=found.keys)
        if found.keys:
            self._activate(new, agent_config, opened, removed=found.accounts.removed)
        if self.status.problem:
            log.info("The configuration is valid again.", extra={"action": "config_valid_again"})
        since = self._clock.now() if found.keys else self.status.since
        self.config = new
        self._set_status(
            ConfigStatus(number=number, since=since, pending_restart=found.pending_restart)
        )
        _log_changes(number, found, new.warnings, by=by)
        return ReloadResult(
            number=number,
            changed=found.keys,
            accounts=found.accounts.names,
            pending_restart=found.pending_restart,
            warnings=new.warnings,
        )

    async def _open_platforms(self, new: Config, accounts: Iterable[_AccountKey]) -> list[Platform]:
        """Opens the platforms without connecting them. Secrets are added to the redaction first, so
        that no log line of a plugin contains them."""
        self._gateway.redact.add_secrets(new.secrets.values())
        opened = []
        for name, account in accounts:
            await asyncio.to_thread(_import_platform, name)
            settings = new.settings.account(name, account)
            assert settings is not None, "an account to be opened is configured"
            platform = open_platform(
                new, name, account, settings=settings, clock=self._clock, new_id=self._new_id
            )
            if platform is not None:
                opened.append(platform)
        return opened

    async def _build_agent_config(
        self, new: Config, new_platforms: Sequence[Platform], *, removed: Sequence[_AccountKey]
    ) -> AgentConfig:
        from holdfast.core.config.changes import with_restart_keys_from  # noqa: PLC0415 - no start needs it

        current = (each for each in self._gateway.platforms if each.name != INTERNAL_PLATFORM)
        platforms = {(each.name, each.account): each for each in (*current, *new_platforms)}
        try:
            return self._agent_configs.build(
                new,
                settings=with_restart_keys_from(new.settings, self._start_config.settings),
                model=await self._agent_configs.model_for(new),
                platforms=[each for key, each in platforms.items() if key not in removed],
            )
        except InvalidTarget as error:
            raise ConfigError("{error}", error=error) from None

    def _activate(
        self,
        new: Config,
        agent_config: AgentConfig,
        new_platforms: Sequence[Platform],
        *,
        removed: Sequence[_AccountKey],
    ) -> None:
        """Applies the configuration without an await: no other task sees it half-applied."""
        self._credential_locks.set_identities(credential_identities(new))
        self._agent_configs.activate(agent_config, model_settings=new.settings.model)
        self._gateway.apply_config(agent_config)
        for platform in new_platforms:
            self._gateway.accounts.add_or_replace(platform)
        for name, account in removed:
            self._gateway.accounts.remove(name, account)

    async def _record(
        self,
        config: Config,
        *,
        by: str,
        source: ConfigSource,
        changed: tuple[str, ...] = (),
    ) -> int:
        return await self._versions.write(
            NewConfigVersion(
                at=self._clock.now(),
                by=by,
                source=source,
                text=config.text,
                changed=changed,
                signature=config.signature,
            )
        )

    def _report_problem(self, problem: str) -> None:
        if problem != self.status.problem:  # logged once, however often the file is read
            log.error(
                "The configuration file is invalid; the last valid configuration stays in use. %s",
                problem,
                extra={"action": "config_invalid"},
            )
        self._set_status(msgspec.structs.replace(self.status, problem=problem))

    def _set_status(self, status: ConfigStatus) -> None:
        if status != self.status:
            self.status = status
            self._gateway.feeds.gateway_changed()


def _import_platform(name: str) -> None:
    """Imports the plugin in a thread, since some libraries take half a second; the plugin reports
    missing ones. The trusted certificates, which it needs for its connections, are read here as
    well."""
    load_trust()
    module, _, _ = BUILT_IN_PLUGINS.get(name, "").partition(":")
    with suppress(ImportError, ValueError):
        import_module(f"{module.rpartition('.')[0]}.platform")


def _log_changes(
    number: int, changes: "ConfigChanges", warnings: Sequence[str], *, by: str
) -> None:
    if not changes.keys:
        return
    log.info(
        "Applied configuration %d, from %s; changed: %s.",
        number,
        by,
        ", ".join(changes.keys),
        extra={"action": "config_reloaded"},
    )
    if changes.pending_restart:
        keys = ", ".join(changes.pending_restart)
        log.warning(
            "Changed settings take effect after a restart of the gateway: %s.",
            keys,
            extra={"action": "config_pending_restart"},
        )
    for warning in warnings:
        log.warning("%s", warning, extra={"action": "config_warning"})


async def watch_config_files(reloader: Reloader, *, is_enabled: Callable[[], bool]) -> None:
    """Reload the configuration after each change of its files; a reload logs problems.
    `is_enabled`: whether changes are reloaded automatically at this moment.

    Runs until it is cancelled, or until it is known that files cannot be watched here."""
    await asyncio.sleep(_START_DELAY)
    try:
        last_read = reloader.config.fingerprint
        while True:
            last_read = await _watch_until_moved(reloader, last_read, is_enabled)
    except WatchUnavailable as error:
        log.warning(
            "Cannot watch the configuration file (%s). Run `holdfast config reload` after a "
            "change.",
            error,
            extra={"action": "config_not_watched"},
        )


async def _watch_until_moved(
    reloader: Reloader, last_read: ConfigFingerprint, is_enabled: Callable[[], bool]
) -> ConfigFingerprint:
    """Watch until the path of a file resolves to another place, and the watch must be renewed.
    Returns the fingerprint of the files when they were last read."""
    files = config_files(reloader.config.home)
    with FileWatch(files) as watch:
        if fingerprint(files) != last_read:  # changed before the watch began
            watch.changed.set()
        while not watch.moved:
            await watch.changed.wait()
            await _wait_until_settled(watch.changed)
            last_read = fingerprint(files)
            if is_enabled():
                await reloader.reload_and_log(by="the file", source=ConfigSource.FILE)
    return last_read


async def _wait_until_settled(changed: asyncio.Event) -> None:
    while changed.is_set():
        changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await changed.wait()
