"""The API as a door: what can be set about it."""

from holdfast.core.door import Door
from holdfast.core.settings import PlatformSettings


class ApiSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference; "": one is made at the first start


DOOR = Door(name="api", settings=ApiSettings, open=None)
