"""Signals of this very process: kept until somebody listens, told in order, and let be at last."""

import asyncio
import signal

import pytest

from holdfast.service.signals import SignalHandlers

TERM, INT, USR1 = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1


async def told(heard: list[signal.Signals], count: int) -> list[signal.Signals]:
    async with asyncio.timeout(30):
        while len(heard) < count:
            await asyncio.sleep(0)
    return heard


async def test_what_came_before_the_loop_is_told_by_it() -> None:
    """C1: a stop works at any point of a start, and before it."""
    heard: list[signal.Signals] = []
    with SignalHandlers() as signals:
        signal.raise_signal(USR1)
        signal.raise_signal(TERM)
        assert not heard
        signals.listen(asyncio.get_running_loop(), heard.append)
        assert await told(heard, 2) == [USR1, TERM]
        signal.raise_signal(INT)
        assert await told(heard, 3) == [USR1, TERM, INT]


async def test_a_restart_is_no_wish_to_hurry_however_often_it_is_asked_for() -> None:
    """Three of SIGUSR1 end nobody."""
    heard: list[signal.Signals] = []
    with SignalHandlers() as signals:
        signals.listen(asyncio.get_running_loop(), heard.append)
        for _ in range(4):
            signal.raise_signal(USR1)
        assert await told(heard, 4) == [USR1] * 4


async def test_once_a_supervisor_is_asked_none_counts_any_more() -> None:
    """E1: its own SIGTERM must not look like a second signal, nor like a third."""
    heard: list[signal.Signals] = []
    with SignalHandlers() as signals:
        signals.listen(asyncio.get_running_loop(), heard.append)
        signals.ignore()
        for _ in range(4):
            signal.raise_signal(TERM)
        await asyncio.sleep(0)
        assert not heard


@pytest.mark.parametrize("which", [TERM, INT, USR1, signal.SIGHUP])
def test_what_was_there_before_is_there_again(which: signal.Signals) -> None:
    before = signal.getsignal(which)
    with SignalHandlers():
        assert signal.getsignal(which) is not before
    assert signal.getsignal(which) is before
