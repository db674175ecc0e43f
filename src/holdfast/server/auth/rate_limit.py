"""Limits how many wrong tokens or login keys an address may try."""

import hashlib
import math
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from holdfast.core.ports.runtime import Clock

BURST, REFILL_SECONDS = (
    10,
    6.0,
)  # wrong keys that are allowed at once, and seconds until one more is
LOOPBACK_REFILL_SECONDS = 1.0  # a program that guesses must not lock out the owner
GLOBAL_BURST, GLOBAL_REFILL_SECONDS = 60, 1.0
MAX_ADDRESSES = 1024
_MAX_SEEN = 16
_LOOPBACK = "loopback"


class _TokenBucket:
    """A token bucket: `burst` attempts, one of which is refilled every `refill_seconds`."""

    __slots__ = ("_burst", "_refill_seconds", "_spent", "_updated_at")

    def __init__(self, burst: int, refill_seconds: float) -> None:
        self._burst = burst
        self._refill_seconds = refill_seconds
        self._spent = 0.0
        self._updated_at = 0.0

    def wait(self, now: float) -> float:
        """Seconds until an attempt is allowed; 0: one is."""
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
    """Owns the recent wrong keys, by address; in memory only, and bounded.

    The same wrong key again is not counted: it reveals nothing, and a program with an outdated
    token must not lock out a neighbour with the right one. All addresses together have a limit
    too, which applies neither to this machine nor to an address that had a right key before.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, _FailedAttempts] = OrderedDict()
        self._trusted: OrderedDict[str, None] = OrderedDict()
        self._global_bucket = _TokenBucket(GLOBAL_BURST, GLOBAL_REFILL_SECONDS)

    def blocked_for(self, address: str | None) -> float:
        """For how many seconds keys of this address are refused; 0: they are not."""
        if not self._failures:
            return 0.0
        client, now = _client_key(address), self._clock.monotonic()
        failures = self._failures.get(client)
        own = failures.bucket.wait(now) if failures is not None else 0.0
        if client == _LOOPBACK or client in self._trusted:
            return own
        return max(own, self._global_bucket.wait(now))

    def record_failure(self, address: str | None, key: str) -> None:
        client, now = _client_key(address), self._clock.monotonic()
        failures = self._failures.get(client)
        if failures is None:
            failures = _FailedAttempts(
                LOOPBACK_REFILL_SECONDS if client == _LOOPBACK else REFILL_SECONDS
            )
        self._failures[client] = failures
        self._failures.move_to_end(client)
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
        if failures.is_new(key):
            failures.bucket.spend(now)
            if client != _LOOPBACK:
                self._global_bucket.spend(now)

    def record_success(self, address: str | None) -> None:
        client = _client_key(address)
        if client == _LOOPBACK:
            return
        self._trusted[client] = None
        self._trusted.move_to_end(client)
        if len(self._trusted) > MAX_ADDRESSES:
            self._trusted.popitem(last=False)


def retry_after_header(seconds: float) -> dict[str, str]:
    """In whole seconds, rounded up."""
    return {"Retry-After": str(math.ceil(seconds))}


def is_local(address: str | None) -> bool:
    """Whether a request came from this machine."""
    return _client_key(address) == _LOOPBACK


def _client_key(address: str | None) -> str:
    """What counts as one client: this machine, an IPv4 address, or an IPv6 /64 network, because a
    single customer has 2^64 addresses."""
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
