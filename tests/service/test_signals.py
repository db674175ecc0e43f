"""Signal handlers: signals are queued until the loop listens, delivered in order, then restored."""

import asyncio
import signal

import pytest

from holdfast.service.signals import SignalHandlers

TERM, INT, USR1 = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1


async def wait_for(received: list[signal.Signals], count: int) -> list[signal.Signals]:
    async with asyncio.timeout(30):
        while len(received) < count:
            await asyncio.sleep(0)
    return received


async def test_signals_before_the_event_loop_are_delivered_by_it() -> None:
    """C1: a stop works at any point of a start, and before it."""
    received: list[signal.Signals] = []
    with SignalHandlers() as signals:
        signal.raise_signal(USR1)
        signal.raise_signal(TERM)
        assert not received
        signals.listen(asyncio.get_running_loop(), received.append)
        assert await wait_for(received, 2) == [USR1, TERM]
        signal.raise_signal(INT)
        assert await wait_for(received, 3) == [USR1, TERM, INT]


async def test_repeated_restart_signals_do_not_force_a_stop() -> None:
    """Four times SIGUSR1 does not end the process."""
    received: list[signal.Signals] = []
    with SignalHandlers() as signals:
        signals.listen(asyncio.get_running_loop(), received.append)
        for _ in range(4):
            signal.raise_signal(USR1)
        assert await wait_for(received, 4) == [USR1] * 4


async def test_signals_are_ignored_after_the_supervisor_was_asked() -> None:
    """E1: its own SIGTERM must not look like a second signal, nor like a third."""
    received: list[signal.Signals] = []
    with SignalHandlers() as signals:
        signals.listen(asyncio.get_running_loop(), received.append)
        signals.ignore()
        for _ in range(4):
            signal.raise_signal(TERM)
        await asyncio.sleep(0)
        assert not received


@pytest.mark.parametrize("which", [TERM, INT, USR1, signal.SIGHUP])
def test_previous_signal_handlers_are_restored(which: signal.Signals) -> None:
    before = signal.getsignal(which)
    with SignalHandlers():
        assert signal.getsignal(which) is not before
    assert signal.getsignal(which) is before
