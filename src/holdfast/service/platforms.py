"""Creates the platform of each enabled account; one whose plugin cannot be used says why."""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from holdfast.config import Config
from holdfast.config.platforms import (
    BUILT_IN_PLUGINS,
    PluginUnusable,
    UnknownPluginSettings,
    find_plugin,
)
from holdfast.core.config.settings import DEFAULT_ACCOUNT, PlatformSettings
from holdfast.core.errors import ConnectRefused, HoldfastError, NotConnected
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.platform import Intake, Platform
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import N_
from holdfast.system.credential_locks import CredentialIdentity
from holdfast.system.paths import Paths
from holdfast.system.tls import load_trust

log = logging.getLogger(__name__)


_REMEDY = N_("Fix, update or remove the package of this platform plugin, then restart the gateway.")


class UnusablePlatform:
    """Takes the place of an account whose plugin cannot be used: connecting fails with the reason,
    so the account is parked at once, and its pending messages wait."""

    def __init__(self, name: str, account: str, error: HoldfastError) -> None:
        self.name = name
        self.account = account
        self.capabilities = Capabilities()
        self._error = error

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        raise ConnectRefused("{error}", error=self._error, remedy=_REMEDY)
        yield

    async def send(self, outbound: Outbound) -> Receipt:
        raise NotConnected("{error}", error=self._error)


def open_platforms(config: Config, *, clock: Clock, new_id: IdFactory) -> Iterator[Platform]:
    """One platform for each enabled account. Nothing is connected by this, and plugins of disabled
    accounts are not imported. A plugin that cannot be used gives an account that reports it."""
    for name, account, settings in enabled_accounts(config):
        platform = open_platform(
            config, name, account, settings=settings, clock=clock, new_id=new_id
        )
        if platform is not None:
            yield platform


def open_platform(
    config: Config,
    name: str,
    account: str,
    *,
    settings: PlatformSettings,
    clock: Clock,
    new_id: IdFactory,
) -> Platform | None:
    """The platform of one account; None: the process makes this one itself."""
    context = PluginContext(
        account=account,
        settings=settings,
        secrets=account_secrets(config, name, account),
        folder=Paths(config.home).platforms / name / account,
        clock=clock,
        new_id=new_id,
    )
    platform = _open(name, context)
    if platform is not None:
        load_trust()  # nearly all of them connect by TLS
    return platform


def _open(name: str, context: PluginContext[Any]) -> Platform | None:
    try:
        plugin = find_plugin(name)
        if plugin is None or plugin.open is None:
            if name in BUILT_IN_PLUGINS:
                return None
            return _unusable(name, context, HoldfastError("it has no `open` function"))
        platform = plugin.open(context)
        if (platform.name, platform.account) != (name, context.account):
            opened = f"{platform.name}:{platform.account}"
            error = HoldfastError("it opens {opened} in place of its account", opened=opened)
            return _unusable(name, context, error)
        return platform
    except Exception as error:  # third-party plugins may raise anything
        what = f"{name}:{context.account}"
        log.exception("Could not open account %s", what, extra={"action": "platform_unusable"})
        reason = error if isinstance(error, PluginUnusable) else repr(error)
        return _unusable(name, context, reason)


def _unusable(
    name: str, context: PluginContext[Any], reason: HoldfastError | str
) -> UnusablePlatform:
    error = HoldfastError("this plugin cannot be used: {reason}", reason=reason)
    return UnusablePlatform(name, context.account, error)


def credential_identities(config: Config) -> dict[tuple[str, str], CredentialIdentity]:
    """What identifies each account to its vendor, by platform and account. Accounts that several
    gateways may use at once are left out."""
    found = {}
    for name, account, settings in enabled_accounts(config):
        plugin = None if isinstance(settings, UnknownPluginSettings) else find_plugin(name)
        keys = plugin.identity if plugin is not None and plugin.open is not None else ()
        values = {**msgspec.to_builtins(settings), **_reveal_secrets(config, name, account)}
        identity = [str(values.get(key, "")) for key in keys]
        if any(identity):
            found[name, account] = (name, *identity)
    return found


def _reveal_secrets(config: Config, name: str, account: str) -> dict[str, str]:
    secrets = account_secrets(config, name, account)
    return {key: secret.reveal() for key, secret in secrets.items()}


def enabled_accounts(config: Config) -> Iterator[tuple[str, str, PlatformSettings]]:
    for name, platform in config.settings.platforms.items():
        for account, settings in {DEFAULT_ACCOUNT: platform, **platform.accounts}.items():
            if settings.enabled:
                yield name, account, settings


def account_secrets(config: Config, name: str, account: str) -> Mapping[str, Secret]:
    """The secrets of one account, by the path of their key in its own table."""
    further = f"platforms.{name}.accounts."
    own = f"platforms.{name}." if account == DEFAULT_ACCOUNT else f"{further}{account}."
    return {
        key.removeprefix(own): secret
        for key, secret in config.secrets.items()
        if key.startswith(own) and (own != f"platforms.{name}." or not key.startswith(further))
    }
