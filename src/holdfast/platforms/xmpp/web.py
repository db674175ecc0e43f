"""The web, as a connection reaches it: servers of ours, and those that others name."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from holdfast.core.net import guard, is_public


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    ours: aiohttp.ClientSession  # goes anywhere
    theirs: aiohttp.ClientSession  # goes to no address that only this machine can reach


@asynccontextmanager
async def web() -> AsyncIterator[Web]:
    wary = aiohttp.TCPConnector(socket_factory=guard(is_public, socket.socket))
    async with aiohttp.ClientSession() as ours, aiohttp.ClientSession(connector=wary) as theirs:
        yield Web(ours=ours, theirs=theirs)
