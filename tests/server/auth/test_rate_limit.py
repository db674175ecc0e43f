"""Patience with wrong keys: how many are borne with, from whom, and for how long they are held."""

from holdfast.server.auth.rate_limit import (
    BURST,
    GLOBAL_BURST,
    MAX_ADDRESSES,
    REFILL_SECONDS,
    LoginRateLimiter,
    retry_after_header,
)

STRANGER, NEIGHBOUR = "203.0.113.5", "203.0.113.6"


class HeldClock:
    def __init__(self) -> None:
        self.at = 5_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def guess(patience: LoginRateLimiter, address: str, times: int, *, what: str = "guess") -> None:
    for n in range(times):
        patience.record_failure(address, f"{what}{n}")


def test_who_guesses_is_held_and_gets_one_try_back_at_a_time() -> None:
    clock = HeldClock()
    patience = LoginRateLimiter(clock=clock)
    guess(patience, STRANGER, BURST - 1)
    assert patience.blocked_for(STRANGER) == 0
    patience.record_failure(STRANGER, "the last that is borne with")
    assert patience.blocked_for(STRANGER) == REFILL_SECONDS
    assert patience.blocked_for(NEIGHBOUR) == 0
    clock.at += REFILL_SECONDS
    assert patience.blocked_for(STRANGER) == 0
    patience.record_failure(STRANGER, "and one more")
    assert patience.blocked_for(STRANGER) == REFILL_SECONDS


def test_the_owner_on_this_machine_is_never_held_for_longer_than_a_second() -> None:
    clock = HeldClock()
    patience = LoginRateLimiter(clock=clock)
    guess(patience, "127.0.0.1", 10_000)
    for own in ("127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"):
        assert patience.blocked_for(own) == 1
    clock.at += 1
    assert patience.blocked_for("::1") == 0


def test_a_program_that_keeps_sending_one_stale_token_holds_up_nobody() -> None:
    patience = LoginRateLimiter(clock=HeldClock())
    for _ in range(1000):
        patience.record_failure(STRANGER, "out of date")
    assert patience.blocked_for(STRANGER) == 0


def test_guesses_from_everywhere_are_held_but_not_this_machine_nor_who_had_the_right_one() -> None:
    clock = HeldClock()
    patience = LoginRateLimiter(clock=clock)
    patience.record_success(NEIGHBOUR)
    for n in range(GLOBAL_BURST):
        patience.record_failure(f"198.51.100.{n}", "guess")
    assert patience.blocked_for("192.0.2.1") == 1
    assert patience.blocked_for(NEIGHBOUR) == 0
    assert patience.blocked_for("127.0.0.1") == 0
    guess(patience, NEIGHBOUR, BURST)
    assert patience.blocked_for(NEIGHBOUR) == REFILL_SECONDS


def test_a_network_of_ipv6_is_one_caller() -> None:
    patience = LoginRateLimiter(clock=HeldClock())
    for n in range(BURST):
        patience.record_failure(f"2001:db8:1:1::{n:x}", f"guess{n}")
    assert patience.blocked_for("2001:db8:1:1:ffff::1") == REFILL_SECONDS
    assert patience.blocked_for("2001:db8:1:2::1") == 0
    guess(patience, "::ffff:203.0.113.5", BURST)
    assert patience.blocked_for(STRANGER) == REFILL_SECONDS


def test_no_number_of_addresses_fills_the_memory() -> None:
    patience = LoginRateLimiter(clock=HeldClock())
    for n in range(MAX_ADDRESSES * 2):
        patience.record_failure(f"10.0.{n // 256}.{n % 256}", "guess")
        patience.record_success(f"10.1.{n // 256}.{n % 256}")
    assert len(patience._failures) == len(patience._trusted) == MAX_ADDRESSES
    guess(patience, STRANGER, 1000)
    assert len(patience._failures[STRANGER].seen) < 20


def test_retry_after_is_never_too_early() -> None:
    assert retry_after_header(0.2) == {"Retry-After": "1"}
    assert retry_after_header(5.01) == {"Retry-After": "6"}
