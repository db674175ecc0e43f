"""The line between a gateway and its understudy: a verdict, a cue, or the end."""

import asyncio
import os
import socket

import pytest

from holdfast.core.errors import RestartRefused
from holdfast.service.successor import StandbyChannel, StandbySuccessor


def line() -> tuple[StandbySuccessor, StandbyChannel]:
    ours, theirs = socket.socketpair()
    return StandbySuccessor(ours), StandbyChannel(theirs.detach())


async def test_one_that_would_start_waits_for_its_cue() -> None:
    understudy, cue = line()
    cue.report(schema=9)
    assert await understudy.would_start(schema=9, timeout=30)
    waiting = asyncio.create_task(asyncio.to_thread(cue.wait_for_release))
    assert understudy.release()
    assert await waiting
    understudy.dismiss()


async def test_one_that_is_not_wanted_after_all_goes() -> None:
    understudy, cue = line()
    cue.report(schema=9)
    assert await understudy.would_start(schema=9, timeout=30)
    understudy.dismiss()
    assert not cue.wait_for_release()


async def test_what_keeps_it_from_starting_is_the_refusal() -> None:
    understudy, cue = line()
    cue.report(error="gateway.prot: there is no such key")
    with pytest.raises(RestartRefused, match="there is no such key"):
        await understudy.would_start(schema=9, timeout=30)
    understudy.dismiss()
    assert not cue.wait_for_release()


async def test_one_that_knows_older_tables_is_asked_by_somebody_who_can_say_so() -> None:
    understudy, cue = line()
    cue.report(schema=8)
    assert not await understudy.would_start(schema=9, timeout=30)
    understudy.dismiss()
    assert not cue.wait_for_release()


async def test_one_that_dies_or_says_nothing_gives_no_verdict() -> None:
    understudy, cue = line()
    assert not await understudy.would_start(schema=9, timeout=0.01)
    understudy.dismiss()
    assert not cue.wait_for_release()
    ours, theirs = socket.socketpair()
    os.close(theirs.detach())
    dead = StandbySuccessor(ours)
    assert not await dead.would_start(schema=9, timeout=30)
    assert not dead.release()
    dead.dismiss()
