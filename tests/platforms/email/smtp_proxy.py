"""A proxy in front of an SMTP server that can answer with errors or disconnect."""

import asyncio
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email import message_from_bytes
from enum import StrEnum


class SmtpFault(StrEnum):
    """What becomes of the next mail. The words are those of servers that exist."""

    LATER = "451 4.7.1 Greylisted, please try again in a few minutes"
    FULL = "452 4.2.2 The mailbox is full"
    NO_SUCH_USER = "550 5.1.1 No such user"
    TOO_LARGE = "552 5.3.4 Message size exceeds fixed limit"
    OVER_QUOTA = "552 5.2.2 The mailbox of the recipient is full"
    SPAM = "554 5.7.1 Rejected by content filter"
    RESET_BEFORE = ""  # before any part of the mail was sent
    RESET_AFTER = " "  # the server has accepted it, and its response is lost


_AT_RCPT = (
    SmtpFault.LATER,
    SmtpFault.NO_SUCH_USER,
    SmtpFault.FULL,
    SmtpFault.TOO_LARGE,
    SmtpFault.OVER_QUOTA,
)
_GREETINGS = (b"EHLO", b"STARTTLS", b"AUTH")


@dataclass(frozen=True, slots=True)
class _Connections:
    reader: asyncio.StreamReader  # of the client
    writer: asyncio.StreamWriter
    there: asyncio.StreamReader  # of the server
    back: asyncio.StreamWriter


class SmtpProxy:
    """Owns the next faults and the accepted mails."""

    def __init__(
        self,
        upstream: int,
        *,
        context: ssl.SSLContext | None = None,
        wrapped: bool = False,
        password: str | None = None,
        is_valid_token: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._upstream = upstream
        self._context = context  # of a secret line: `wrapped` from its first byte, else on demand
        self._wrapped = wrapped
        self.password = password  # None: no login is required
        self._is_valid_token = is_valid_token  # whether the user has that token
        self.port = 0
        self.faults: list[SmtpFault] = []
        self.accepted: list[str] = []  # the names of mails, in the order in which they were said

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["SmtpProxy"]:
        context = self._context if self._wrapped else None
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._talk(_Connections(reader, writer, there, back))
        finally:
            writer.close()
            back.close()

    async def _talk(self, ends: _Connections) -> None:
        """One line of the client and one answer of the server at a time, as the protocol has it."""
        ends.writer.write(await _answer(ends.there))
        line = await self._greeted(ends)
        while line and await self._passed_on(line, ends):
            line = await ends.reader.readline()

    async def _greeted(self, ends: _Connections) -> bytes:
        """The first line that is no greeting. OpenSMTPD accepts one greeting only."""
        known = b""
        while (line := await ends.reader.readline()).upper().startswith(_GREETINGS):
            if not line.upper().startswith(b"EHLO"):
                await self._let_in(line, ends)
                continue
            if not known:
                ends.back.write(line)
                known = self._offering(await _answer(ends.there))
            ends.writer.write(known)
        return line

    async def _passed_on(self, line: bytes, ends: _Connections) -> bool:
        """Whether the connection goes on."""
        fault = self._fault_at(line)
        if fault is not None:
            if fault is SmtpFault.RESET_BEFORE:
                return False
            ends.writer.write(f"{fault.value}\r\n".encode())
            return True
        ends.back.write(line)
        ends.writer.write(await _answer(ends.there))
        if not line.upper().startswith(b"DATA"):
            return True
        source = await ends.reader.readuntil(b"\r\n.\r\n")
        self.accepted.append(str(message_from_bytes(source)["Message-ID"]))
        ends.back.write(source)
        return self._reply(ends.writer, await _answer(ends.there))

    def _offering(self, answer: bytes) -> bytes:
        """What is said to a greeting, with what we can do ourselves behind its first line."""
        starttls = b"250-STARTTLS\r\n" if self._context and not self._wrapped else b""
        auth = b"250-AUTH PLAIN\r\n" if self.password is not None else b""
        auth = b"250-AUTH XOAUTH2\r\n" if self._is_valid_token is not None else auth
        greeting, end, rest = answer.partition(b"\r\n")
        return greeting + end + starttls + auth + rest

    async def _let_in(self, line: bytes, ends: _Connections) -> None:
        writer = ends.writer
        if self._is_valid_token is not None:
            await self._let_in_by_token(line, ends, self._is_valid_token)
            return
        if line.upper().startswith(b"STARTTLS"):
            writer.write(b"220 2.0.0 Ready to start TLS\r\n")
            assert self._context is not None
            await writer.start_tls(self._context)
            return
        _, _, password = b64decode(line.split()[2]).split(b"\0")
        known = password.decode() == self.password
        writer.write(b"235 2.7.0 Ok\r\n" if known else b"535 5.7.8 Bad credentials\r\n")

    async def _let_in_by_token(
        self, line: bytes, ends: _Connections, is_valid_token: Callable[[str, str], bool]
    ) -> None:
        """https://developers.google.com/workspace/gmail/imap/xoauth2-protocol#smtp_protocol_exchange:
        `AUTH XOAUTH2` with the user and the token; a token that is not taken is answered with 334
        and an explanation, which the client answers with an empty line, and then with 535."""
        said = b64decode(line.split()[2]).decode()
        user, bearer, *rest = said.split("\1")
        assert (user[:5], bearer[:12], rest) == ("user=", "auth=Bearer ", ["", ""]), said
        if is_valid_token(user.removeprefix("user="), bearer.removeprefix("auth=Bearer ")):
            ends.writer.write(b"235 2.7.0 Accepted\r\n")
            return
        ends.writer.write(b"334 eyJzdGF0dXMiOiI0MDEiLCJzY2hlbWVzIjoiYmVhcmVyIn0=\r\n")
        assert await ends.reader.readline() == b"\r\n"
        ends.writer.write(b"535 5.7.8 Username and Password not accepted\r\n")

    def _fault_at(self, line: bytes) -> SmtpFault | None:
        word = line.upper()
        at_rcpt = bool(self.faults) and self.faults[0] in _AT_RCPT and word.startswith(b"RCPT")
        at_data = (
            bool(self.faults)
            and self.faults[0] is SmtpFault.RESET_BEFORE
            and word.startswith(b"MAIL")
        )
        return self.faults.pop(0) if at_rcpt or at_data else None

    def _reply(self, writer: asyncio.StreamWriter, answer: bytes) -> bool:
        fault = self.faults.pop(0) if self.faults else None
        if fault is SmtpFault.RESET_AFTER:
            return False
        writer.write(answer if fault is None else f"{fault.value}\r\n".encode())
        return True


async def _answer(reader: asyncio.StreamReader) -> bytes:
    whole = b""
    while True:
        line = await reader.readuntil(b"\n")
        whole += line
        if line[3:4] != b"-":
            return whole
