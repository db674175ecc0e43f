"""The page as a door: it has no settings of its own."""

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.door import PlatformPlugin

PLUGIN = PlatformPlugin(name="web", settings=PlatformSettings, open=None)
