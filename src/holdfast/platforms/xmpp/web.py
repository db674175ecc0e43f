"""The web, as a connection reaches it: servers of ours, and those that others name."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from holdfast.core.net import guarded_socket_factory, is_public


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSessions:
    unrestricted: aiohttp.ClientSession  # goes anywhere
    public_only: aiohttp.ClientSession  # goes to no address that only this machine can reach


@asynccontextmanager
async def open_http_sessions() -> AsyncIterator[HttpSessions]:
    wary = aiohttp.TCPConnector(socket_factory=guarded_socket_factory(is_public, socket.socket))
    async with aiohttp.ClientSession() as ours, aiohttp.ClientSession(connector=wary) as theirs:
        yield HttpSessions(unrestricted=ours, public_only=theirs)
