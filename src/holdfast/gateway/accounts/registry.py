"""The doors: every platform account, found by name, with the proof that it can be reached."""

from collections.abc import Callable, Iterable, Iterator

from holdfast.core.errors import ConnectError
from holdfast.core.messages.outbox import Address
from holdfast.core.ops.account import Standing
from holdfast.core.ops.facts import PlatformFacts
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.protocols import Clock, Platform, Spells
from holdfast.core.turns.subagent import HOUSE

_GONE = Capabilities()
_UNTRIED = Standing()


def spelled(door: Platform, chat: str) -> str:
    """The id of the chat that somebody calls so."""
    return door.spelled(chat) if isinstance(door, Spells) else chat


class Doors:
    """Owns which platform answers to which name and account, how each stands, and when each last
    proved that it is there: by a round trip, which a flag that somebody set once is not."""

    def __init__(self, platforms: Iterable[Platform], *, clock: Clock) -> None:
        self._platforms = {(p.name, p.account): p for p in platforms}
        self._clock = clock
        self._proven: dict[tuple[str, str], float] = {}
        self._alive: dict[tuple[str, str], float] = {}  # on the clock that nobody sets
        self._standing: dict[tuple[str, str], Standing] = {}
        # Told when a door says that its line is gone.
        self.on_lost: Callable[[str, str, ConnectError], None] = lambda *_: None

    def __iter__(self) -> Iterator[Platform]:
        return iter(self._platforms.values())

    def put(self, platform: Platform) -> None:
        """This one answers to its name and account from now on, whoever did before."""
        self.remove(platform)
        self._platforms[platform.name, platform.account] = platform

    def remove(self, platform: Platform) -> None:
        """Nobody answers there any more. What was proven of one who did proves nothing."""
        key = (platform.name, platform.account)
        for known in (self._platforms, self._proven, self._alive, self._standing):
            known.pop(key, None)

    def find(self, address: Address) -> Platform | None:
        """None: the account was taken out of the config after the message came."""
        return self._platforms.get((address.platform, address.account))

    def has(self, name: str, account: str) -> bool:
        return (name, account) in self._platforms

    def proven(self, name: str, account: str) -> None:
        """Something went to the account's platform, and an answer came back."""
        self._proven[name, account] = self._clock.now()

    def alive(self, name: str, account: str) -> None:
        """Its door says that its line lives. That something could be sent says less: what people
        write may come another way, and that one may be dead."""
        self._alive[name, account] = self._clock.monotonic()
        self.proven(name, account)

    def proven_since(self, name: str, account: str, *, at: float) -> bool:
        """Whether an answer has come back from it after that."""
        proven = self._proven.get((name, account))
        return proven is not None and proven > at

    def alive_at(self, platform: Platform) -> float | None:
        """When its line last gave a sign of life, on the clock that nobody sets; None: never."""
        return self._alive.get((platform.name, platform.account))

    def stands(self, platform: Platform, standing: Standing) -> None:
        self._standing[platform.name, platform.account] = standing

    def facts(self) -> tuple[PlatformFacts, ...]:
        """Of every door that leads outside."""
        return tuple(self.facts_of(p) for p in self if p.name != HOUSE)

    def facts_of(self, platform: Platform) -> PlatformFacts:
        key = platform.name, platform.account
        standing = self._standing.get(key, _UNTRIED)
        return PlatformFacts(
            name=platform.name,
            account=platform.account,
            backlog=platform.capabilities.backlog,
            here=platform.capabilities.fetchable,
            alive_within=platform.capabilities.alive_within,
            proven_at=self._proven.get(key),
            state=standing.state,
            since=standing.since,
            error=standing.why,
            remedy=standing.remedy,
            next_try=standing.next_try,
            failures=standing.failures,
            lacks=platform.capabilities.lacks,
        )

    def capabilities(self, address: Address) -> Capabilities:
        return self.capabilities_of(address.platform, address.account)

    def capabilities_of(self, name: str, account: str) -> Capabilities:
        platform = self._platforms.get((name, account))
        return platform.capabilities if platform else _GONE
