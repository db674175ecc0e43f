"""Declares the web platform, which has no settings of its own."""

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.platform_plugin import PlatformPlugin

PLUGIN = PlatformPlugin(name="web", settings=PlatformSettings, open=None)
