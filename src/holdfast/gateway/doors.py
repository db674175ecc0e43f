"""The doors: every platform account, found by name, with the proof that it can be reached."""

from collections.abc import Iterable, Iterator

from holdfast.core.capabilities import Capabilities
from holdfast.core.child import HOUSE
from holdfast.core.errors import ConnectError
from holdfast.core.facts import PlatformFacts
from holdfast.core.outbox import Address
from holdfast.core.ports import Platform

_GONE = Capabilities()


class Doors:
    """Owns which platform answers to which name and account, and when each last proved that it
    does: by a round trip, which a flag that somebody set once is not."""

    def __init__(self, platforms: Iterable[Platform]) -> None:
        self._platforms = {(p.name, p.account): p for p in platforms}
        self._proven: dict[tuple[str, str], float] = {}
        self._shut: dict[tuple[str, str], str] = {}

    def __iter__(self) -> Iterator[Platform]:
        return iter(self._platforms.values())

    def find(self, address: Address) -> Platform | None:
        """None: the account was taken out of the config after the message came."""
        return self._platforms.get((address.platform, address.account))

    def proven(self, name: str, account: str, *, at: float) -> None:
        """Something went to the account's platform, and an answer came back."""
        self._proven[name, account] = at
        self._shut.pop((name, account), None)

    def proven_since(self, name: str, account: str, *, at: float) -> bool:
        """Whether an answer has come back from it after that."""
        proven = self._proven.get((name, account))
        return proven is not None and proven > at

    def lost(self, name: str, account: str, error: ConnectError) -> None:
        """Its line is gone."""
        self._shut[name, account] = str(error)

    def shut(self, platform: Platform, why: str) -> None:
        """It could not be connected."""
        self._shut[platform.name, platform.account] = why

    def facts(self) -> tuple[PlatformFacts, ...]:
        """Of every door that leads outside."""
        return tuple(self._facts_of(p) for p in self if p.name != HOUSE)

    def _facts_of(self, platform: Platform) -> PlatformFacts:
        key = platform.name, platform.account
        return PlatformFacts(
            name=platform.name,
            account=platform.account,
            backlog=platform.capabilities.backlog,
            here=platform.capabilities.fetchable,
            proven_at=self._proven.get(key),
            error=self._shut.get(key, ""),
        )

    def capabilities(self, address: Address) -> Capabilities:
        return self.capabilities_of(address.platform, address.account)

    def capabilities_of(self, name: str, account: str) -> Capabilities:
        platform = self._platforms.get((name, account))
        return platform.capabilities if platform else _GONE
