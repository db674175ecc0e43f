"""Declares the API platform and its settings."""

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.platform_plugin import PlatformPlugin


class ApiSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference; "": one is created at the first start


PLUGIN = PlatformPlugin(name="api", settings=ApiSettings, open=None)
