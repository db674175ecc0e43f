"""Declares the simulated platform: the address of its chat service."""

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import PlatformPlugin, PluginContext


class SimulatedSettings(PlatformSettings, frozen=True, kw_only=True):
    base_url: str = ""
    token: str = ""  # a reference; the vendor asks for none, but two gateways share none either

    def __post_init__(self) -> None:
        if self.enabled and not self.base_url:
            raise ValueError("base_url is missing: the address that the service prints")


def _open(context: PluginContext[SimulatedSettings]) -> Platform:
    from holdfast.testing.simulated.platform import RemoteSimulatedPlatform  # noqa: PLC0415 - HTTP

    return RemoteSimulatedPlatform(context.settings.base_url, account=context.account)


PLUGIN = PlatformPlugin(name="simulated", settings=SimulatedSettings, open=_open)
