"""The page as a door: it has no settings of its own."""

from holdfast.core.door import Door
from holdfast.core.settings import PlatformSettings

DOOR = Door(name="web", settings=PlatformSettings, open=None)
