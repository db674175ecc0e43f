"""Patience: how many wrong keys an address may try before none of its keys is looked at."""

import hashlib
import math
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from holdfast.core.ports.protocols import Clock

BURST, EVERY = 10, 6.0  # wrong keys that are borne with, and seconds until one more is
EVERY_ON_LOOPBACK = 1.0  # the owner is here: a guess of some program must not lock them out
BURST_IN_ALL, EVERY_IN_ALL = 60, 1.0
MOST_ADDRESSES = 1024
_MOST_SEEN = 16
_LOOPBACK = "loopback"


class _Allowance:
    """Owns what is left of so many tries, one of which comes back every so many seconds."""

    __slots__ = ("_at", "_burst", "_every", "_spent")

    def __init__(self, burst: int, every: float) -> None:
        self._burst = burst
        self._every = every
        self._spent = 0.0
        self._at = 0.0

    def wait(self, now: float) -> float:
        """Seconds until there is a try; 0: there is one."""
        return max(0.0, (self._spent_by(now) + 1 - self._burst) * self._every)

    def spend(self, now: float) -> None:
        self._spent = min(self._spent_by(now) + 1, self._burst)
        self._at = now

    def _spent_by(self, now: float) -> float:
        return max(0.0, self._spent - (now - self._at) / self._every)


class _Tries:
    __slots__ = ("allowance", "seen")

    def __init__(self, every: float) -> None:
        self.allowance = _Allowance(BURST, every)
        self.seen: OrderedDict[bytes, None] = OrderedDict()  # digests of keys that were wrong

    def new(self, key: str) -> bool:
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        known = digest in self.seen
        self.seen[digest] = None
        self.seen.move_to_end(digest)
        if len(self.seen) > _MOST_SEEN:
            self.seen.popitem(last=False)
        return not known


class Patience:
    """Owns the wrong keys of late, by address; all of it is memory, and bounded.

    The same wrong key again is not counted: it teaches nobody anything, and a program whose token
    is out of date must not lock out its neighbour with the right one. Many addresses together
    have an allowance, too, which holds up neither this machine nor who had the right key before.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._tries: OrderedDict[str, _Tries] = OrderedDict()
        self._proven: OrderedDict[str, None] = OrderedDict()
        self._in_all = _Allowance(BURST_IN_ALL, EVERY_IN_ALL)

    def held(self, address: str | None) -> float:
        """For how many seconds no key of this address is looked at; 0: it is."""
        if not self._tries:
            return 0.0
        place, now = _place(address), self._clock.monotonic()
        tries = self._tries.get(place)
        own = tries.allowance.wait(now) if tries is not None else 0.0
        if place == _LOOPBACK or place in self._proven:
            return own
        return max(own, self._in_all.wait(now))

    def wrong(self, address: str | None, key: str) -> None:
        place, now = _place(address), self._clock.monotonic()
        tries = self._tries.get(place)
        if tries is None:
            tries = _Tries(EVERY_ON_LOOPBACK if place == _LOOPBACK else EVERY)
        self._tries[place] = tries
        self._tries.move_to_end(place)
        if len(self._tries) > MOST_ADDRESSES:
            self._tries.popitem(last=False)
        if tries.new(key):
            tries.allowance.spend(now)
            if place != _LOOPBACK:
                self._in_all.spend(now)

    def right(self, address: str | None) -> None:
        place = _place(address)
        if place == _LOOPBACK:
            return
        self._proven[place] = None
        self._proven.move_to_end(place)
        if len(self._proven) > MOST_ADDRESSES:
            self._proven.popitem(last=False)


def retry_after(held: float) -> dict[str, str]:
    """The header for whoever is held up, in whole seconds, never too early."""
    return {"Retry-After": str(math.ceil(held))}


def _place(address: str | None) -> str:
    """Who is one caller: this machine, an IPv4 address, or a network of IPv6, of which a single
    customer has 2^64 addresses."""
    if address in ("127.0.0.1", "::1"):
        return _LOOPBACK
    try:
        found = ip_address((address or "").partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_loopback:
        return _LOOPBACK
    if isinstance(found, IPv6Address):
        return found.packed[:8].hex()
    return str(found)
