"""The channel between a gateway and its standby successor: verdict, release or dismissal."""

import asyncio
import os
import socket

import pytest

from holdfast.core.errors import RestartRefused
from holdfast.service.successor import StandbyChannel, StandbySuccessor


def open_channel() -> tuple[StandbySuccessor, StandbyChannel]:
    ours, theirs = socket.socketpair()
    return StandbySuccessor(ours), StandbyChannel(theirs.detach())


async def test_a_standby_that_would_start_waits_for_its_release() -> None:
    standby, channel = open_channel()
    channel.report(schema=9)
    assert await standby.would_start(schema=9, timeout=30)
    waiting = asyncio.create_task(asyncio.to_thread(channel.wait_for_release))
    assert standby.release()
    assert await waiting
    standby.dismiss()


async def test_a_dismissed_standby_exits() -> None:
    standby, channel = open_channel()
    channel.report(schema=9)
    assert await standby.would_start(schema=9, timeout=30)
    standby.dismiss()
    assert not channel.wait_for_release()


async def test_the_error_of_a_standby_is_the_reason_for_the_refusal() -> None:
    standby, channel = open_channel()
    channel.report(error="gateway.prot: there is no such key")
    with pytest.raises(RestartRefused, match="there is no such key"):
        await standby.would_start(schema=9, timeout=30)
    standby.dismiss()
    assert not channel.wait_for_release()


async def test_a_standby_with_an_older_schema_gives_no_verdict() -> None:
    standby, channel = open_channel()
    channel.report(schema=8)
    assert not await standby.would_start(schema=9, timeout=30)
    standby.dismiss()
    assert not channel.wait_for_release()


async def test_a_standby_that_dies_or_does_not_report_gives_no_verdict() -> None:
    standby, channel = open_channel()
    assert not await standby.would_start(schema=9, timeout=0.01)
    standby.dismiss()
    assert not channel.wait_for_release()
    ours, theirs = socket.socketpair()
    os.close(theirs.detach())
    dead = StandbySuccessor(ours)
    assert not await dead.would_start(schema=9, timeout=30)
    assert not dead.release()
    dead.dismiss()
