"""The API as a door: what can be set about it."""

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.door import PlatformPlugin


class ApiSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference; "": one is made at the first start


PLUGIN = PlatformPlugin(name="api", settings=ApiSettings, open=None)
