"""The rate limit for wrong keys: how many are allowed, and how long a client is blocked."""

from tests.support.settable_clock import SettableClock

from holdfast.server.auth.rate_limit import (
    BURST,
    GLOBAL_BURST,
    MAX_ADDRESSES,
    REFILL_SECONDS,
    LoginRateLimiter,
    retry_after_header,
)

GUESSER, OTHER_CLIENT = "203.0.113.5", "203.0.113.6"


def guess(limiter: LoginRateLimiter, address: str, times: int, *, prefix: str = "guess") -> None:
    for n in range(times):
        limiter.record_failure(address, f"{prefix}{n}")


def test_a_guesser_is_blocked_and_gets_one_try_back_at_a_time() -> None:
    clock = SettableClock(5_000.0)
    limiter = LoginRateLimiter(clock=clock)
    guess(limiter, GUESSER, BURST - 1)
    assert limiter.blocked_for(GUESSER) == 0
    limiter.record_failure(GUESSER, "the last that is allowed")
    assert limiter.blocked_for(GUESSER) == REFILL_SECONDS
    assert limiter.blocked_for(OTHER_CLIENT) == 0
    clock.at += REFILL_SECONDS
    assert limiter.blocked_for(GUESSER) == 0
    limiter.record_failure(GUESSER, "and one more")
    assert limiter.blocked_for(GUESSER) == REFILL_SECONDS


def test_loopback_is_never_blocked_for_longer_than_a_second() -> None:
    clock = SettableClock(5_000.0)
    limiter = LoginRateLimiter(clock=clock)
    guess(limiter, "127.0.0.1", 10_000)
    for own in ("127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"):
        assert limiter.blocked_for(own) == 1
    clock.at += 1
    assert limiter.blocked_for("::1") == 0


def test_one_stale_token_sent_again_and_again_blocks_no_client() -> None:
    limiter = LoginRateLimiter(clock=SettableClock(5_000.0))
    for _ in range(1000):
        limiter.record_failure(GUESSER, "out of date")
    assert limiter.blocked_for(GUESSER) == 0


def test_distributed_guesses_block_neither_loopback_nor_a_client_that_was_right() -> None:
    clock = SettableClock(5_000.0)
    limiter = LoginRateLimiter(clock=clock)
    limiter.record_success(OTHER_CLIENT)
    for n in range(GLOBAL_BURST):
        limiter.record_failure(f"198.51.100.{n}", "guess")
    assert limiter.blocked_for("192.0.2.1") == 1
    assert limiter.blocked_for(OTHER_CLIENT) == 0
    assert limiter.blocked_for("127.0.0.1") == 0
    guess(limiter, OTHER_CLIENT, BURST)
    assert limiter.blocked_for(OTHER_CLIENT) == REFILL_SECONDS


def test_an_ipv6_network_counts_as_one_client() -> None:
    limiter = LoginRateLimiter(clock=SettableClock(5_000.0))
    for n in range(BURST):
        limiter.record_failure(f"2001:db8:1:1::{n:x}", f"guess{n}")
    assert limiter.blocked_for("2001:db8:1:1:ffff::1") == REFILL_SECONDS
    assert limiter.blocked_for("2001:db8:1:2::1") == 0
    guess(limiter, "::ffff:203.0.113.5", BURST)
    assert limiter.blocked_for(GUESSER) == REFILL_SECONDS


def test_memory_is_bounded_for_any_number_of_addresses() -> None:
    limiter = LoginRateLimiter(clock=SettableClock(5_000.0))
    for n in range(MAX_ADDRESSES * 2):
        limiter.record_failure(f"10.0.{n // 256}.{n % 256}", "guess")
        limiter.record_success(f"10.1.{n // 256}.{n % 256}")
    assert len(limiter._failures) == len(limiter._trusted) == MAX_ADDRESSES
    guess(limiter, GUESSER, 1000)
    assert len(limiter._failures[GUESSER].seen) < 20


def test_retry_after_is_never_too_early() -> None:
    assert retry_after_header(0.2) == {"Retry-After": "1"}
    assert retry_after_header(5.01) == {"Retry-After": "6"}
