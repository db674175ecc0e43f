"""The doors: every platform account that is open, found by name."""

from collections.abc import Iterable, Iterator

from holdfast.core.capabilities import Capabilities
from holdfast.core.outbox import Address
from holdfast.core.ports import Platform

_GONE = Capabilities()


class Doors:
    """Owns which platform answers to which name and account."""

    def __init__(self, platforms: Iterable[Platform]) -> None:
        self._platforms = {(p.name, p.account): p for p in platforms}

    def __iter__(self) -> Iterator[Platform]:
        return iter(self._platforms.values())

    def find(self, address: Address) -> Platform | None:
        """None: the account was taken out of the config after the message came."""
        return self._platforms.get((address.platform, address.account))

    def capabilities(self, address: Address) -> Capabilities:
        platform = self.find(address)
        return platform.capabilities if platform else _GONE
