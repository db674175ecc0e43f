"""Patience with wrong keys: how many are borne with, from whom, and for how long they are held."""

from holdfast.server.auth.rate_limit import (
    BURST,
    BURST_IN_ALL,
    EVERY,
    MOST_ADDRESSES,
    Patience,
    retry_after,
)

STRANGER, NEIGHBOUR = "203.0.113.5", "203.0.113.6"


class HeldClock:
    def __init__(self) -> None:
        self.at = 5_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def guess(patience: Patience, address: str, times: int, *, what: str = "guess") -> None:
    for n in range(times):
        patience.wrong(address, f"{what}{n}")


def test_who_guesses_is_held_and_gets_one_try_back_at_a_time() -> None:
    clock = HeldClock()
    patience = Patience(clock=clock)
    guess(patience, STRANGER, BURST - 1)
    assert patience.held(STRANGER) == 0
    patience.wrong(STRANGER, "the last that is borne with")
    assert patience.held(STRANGER) == EVERY
    assert patience.held(NEIGHBOUR) == 0
    clock.at += EVERY
    assert patience.held(STRANGER) == 0
    patience.wrong(STRANGER, "and one more")
    assert patience.held(STRANGER) == EVERY


def test_the_owner_on_this_machine_is_never_held_for_longer_than_a_second() -> None:
    clock = HeldClock()
    patience = Patience(clock=clock)
    guess(patience, "127.0.0.1", 10_000)
    for own in ("127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"):
        assert patience.held(own) == 1
    clock.at += 1
    assert patience.held("::1") == 0


def test_a_program_that_keeps_sending_one_stale_token_holds_up_nobody() -> None:
    patience = Patience(clock=HeldClock())
    for _ in range(1000):
        patience.wrong(STRANGER, "out of date")
    assert patience.held(STRANGER) == 0


def test_guesses_from_everywhere_are_held_but_not_this_machine_nor_who_had_the_right_one() -> None:
    clock = HeldClock()
    patience = Patience(clock=clock)
    patience.right(NEIGHBOUR)
    for n in range(BURST_IN_ALL):
        patience.wrong(f"198.51.100.{n}", "guess")
    assert patience.held("192.0.2.1") == 1
    assert patience.held(NEIGHBOUR) == 0
    assert patience.held("127.0.0.1") == 0
    guess(patience, NEIGHBOUR, BURST)
    assert patience.held(NEIGHBOUR) == EVERY


def test_a_network_of_ipv6_is_one_caller() -> None:
    patience = Patience(clock=HeldClock())
    for n in range(BURST):
        patience.wrong(f"2001:db8:1:1::{n:x}", f"guess{n}")
    assert patience.held("2001:db8:1:1:ffff::1") == EVERY
    assert patience.held("2001:db8:1:2::1") == 0
    guess(patience, "::ffff:203.0.113.5", BURST)
    assert patience.held(STRANGER) == EVERY


def test_no_number_of_addresses_fills_the_memory() -> None:
    patience = Patience(clock=HeldClock())
    for n in range(MOST_ADDRESSES * 2):
        patience.wrong(f"10.0.{n // 256}.{n % 256}", "guess")
        patience.right(f"10.1.{n // 256}.{n % 256}")
    assert len(patience._tries) == len(patience._proven) == MOST_ADDRESSES
    guess(patience, STRANGER, 1000)
    assert len(patience._tries[STRANGER].seen) < 20


def test_retry_after_is_never_too_early() -> None:
    assert retry_after(0.2) == {"Retry-After": "1"}
    assert retry_after(5.01) == {"Retry-After": "6"}
