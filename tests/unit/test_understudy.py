"""The line between a gateway and its understudy: a verdict, a cue, or the end."""

import asyncio
import os
import socket

import pytest

from holdfast.core.errors import RestartRefused
from holdfast.service.understudy import Cue, Understudy


def line() -> tuple[Understudy, Cue]:
    ours, theirs = socket.socketpair()
    return Understudy(ours), Cue(theirs.detach())


async def test_one_that_would_start_waits_for_its_cue() -> None:
    understudy, cue = line()
    cue.tell(schema=9)
    assert await understudy.verdict(schema=9, within=30)
    waiting = asyncio.create_task(asyncio.to_thread(cue.comes))
    assert understudy.cue()
    assert await waiting
    understudy.dismiss()


async def test_one_that_is_not_wanted_after_all_goes() -> None:
    understudy, cue = line()
    cue.tell(schema=9)
    assert await understudy.verdict(schema=9, within=30)
    understudy.dismiss()
    assert not cue.comes()


async def test_what_keeps_it_from_starting_is_the_refusal() -> None:
    understudy, cue = line()
    cue.tell(error="gateway.prot: there is no such key")
    with pytest.raises(RestartRefused, match="there is no such key"):
        await understudy.verdict(schema=9, within=30)
    understudy.dismiss()
    assert not cue.comes()


async def test_one_that_knows_older_tables_is_asked_by_somebody_who_can_say_so() -> None:
    understudy, cue = line()
    cue.tell(schema=8)
    assert not await understudy.verdict(schema=9, within=30)
    understudy.dismiss()
    assert not cue.comes()


async def test_one_that_dies_or_says_nothing_gives_no_verdict() -> None:
    understudy, cue = line()
    assert not await understudy.verdict(schema=9, within=0.01)
    understudy.dismiss()
    assert not cue.comes()
    ours, theirs = socket.socketpair()
    os.close(theirs.detach())
    dead = Understudy(ours)
    assert not await dead.verdict(schema=9, within=30)
    assert not dead.cue()
    dead.dismiss()
