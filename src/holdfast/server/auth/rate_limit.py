"""Limits how many wrong tokens or login keys an address may try."""

import hashlib
import math
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from holdfast.core.ports.runtime import Clock

BURST, REFILL_SECONDS = 10, 6.0  # wrong keys that are borne with, and seconds until one more is
LOOPBACK_REFILL_SECONDS = 1.0  # the owner is here: a guess of some program must not lock them out
GLOBAL_BURST, GLOBAL_REFILL_SECONDS = 60, 1.0
MAX_ADDRESSES = 1024
_MAX_SEEN = 16
_LOOPBACK = "loopback"


class _TokenBucket:
    """Owns what is left of so many tries, one of which comes back every so many seconds."""

    __slots__ = ("_burst", "_refill_seconds", "_spent", "_updated_at")

    def __init__(self, burst: int, refill_seconds: float) -> None:
        self._burst = burst
        self._refill_seconds = refill_seconds
        self._spent = 0.0
        self._updated_at = 0.0

    def wait(self, now: float) -> float:
        """Seconds until there is a try; 0: there is one."""
        return max(0.0, (self._spent_by(now) + 1 - self._burst) * self._refill_seconds)

    def spend(self, now: float) -> None:
        self._spent = min(self._spent_by(now) + 1, self._burst)
        self._updated_at = now

    def _spent_by(self, now: float) -> float:
        return max(0.0, self._spent - (now - self._updated_at) / self._refill_seconds)


class _FailedAttempts:
    __slots__ = ("bucket", "seen")

    def __init__(self, refill_seconds: float) -> None:
        self.bucket = _TokenBucket(BURST, refill_seconds)
        self.seen: OrderedDict[bytes, None] = OrderedDict()  # digests of keys that were wrong

    def is_new(self, key: str) -> bool:
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        known = digest in self.seen
        self.seen[digest] = None
        self.seen.move_to_end(digest)
        if len(self.seen) > _MAX_SEEN:
            self.seen.popitem(last=False)
        return not known


class LoginRateLimiter:
    """Owns the wrong keys of late, by address; all of it is memory, and bounded.

    The same wrong key again is not counted: it teaches nobody anything, and a program whose token
    is out of date must not lock out its neighbour with the right one. Many addresses together
    have an allowance, too, which holds up neither this machine nor who had the right key before.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, _FailedAttempts] = OrderedDict()
        self._trusted: OrderedDict[str, None] = OrderedDict()
        self._global_bucket = _TokenBucket(GLOBAL_BURST, GLOBAL_REFILL_SECONDS)

    def blocked_for(self, address: str | None) -> float:
        """For how many seconds no key of this address is looked at; 0: it is."""
        if not self._failures:
            return 0.0
        place, now = _client_key(address), self._clock.monotonic()
        tries = self._failures.get(place)
        own = tries.bucket.wait(now) if tries is not None else 0.0
        if place == _LOOPBACK or place in self._trusted:
            return own
        return max(own, self._global_bucket.wait(now))

    def record_failure(self, address: str | None, key: str) -> None:
        place, now = _client_key(address), self._clock.monotonic()
        tries = self._failures.get(place)
        if tries is None:
            tries = _FailedAttempts(
                LOOPBACK_REFILL_SECONDS if place == _LOOPBACK else REFILL_SECONDS
            )
        self._failures[place] = tries
        self._failures.move_to_end(place)
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
        if tries.is_new(key):
            tries.bucket.spend(now)
            if place != _LOOPBACK:
                self._global_bucket.spend(now)

    def record_success(self, address: str | None) -> None:
        place = _client_key(address)
        if place == _LOOPBACK:
            return
        self._trusted[place] = None
        self._trusted.move_to_end(place)
        if len(self._trusted) > MAX_ADDRESSES:
            self._trusted.popitem(last=False)


def retry_after_header(seconds: float) -> dict[str, str]:
    """The header for whoever is held up, in whole seconds, never too early."""
    return {"Retry-After": str(math.ceil(seconds))}


def _client_key(address: str | None) -> str:
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
