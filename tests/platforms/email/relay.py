"""A relay in front of an SMTP server, which can answer in its place, or hang up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from email import message_from_bytes
from enum import StrEnum


class Fault(StrEnum):
    """What becomes of the next mail. The words are those of servers that exist."""

    LATER = "451 4.7.1 Greylisted, please try again in a few minutes"
    FULL = "452 4.2.2 The mailbox is full"
    NOBODY = "550 5.1.1 No such user"
    SPAM = "554 5.7.1 Rejected by content filter"
    CUT_BEFORE = ""  # before anything of the mail was said
    CUT_AFTER = " "  # the server has taken it, and its word is lost


_AT_RCPT = (Fault.LATER, Fault.NOBODY, Fault.FULL)


class Relay:
    """Owns the faults that are still to come, and what was taken."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self.port = 0
        self.faults: list[Fault] = []
        self.taken: list[str] = []  # the names of mails, in the order in which they were said

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Relay"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
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
                await self._talk(reader, writer, there, back)
        finally:
            writer.close()
            back.close()

    async def _talk(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        """One line of the client and one answer of the server at a time, as the protocol has it."""
        writer.write(await _answer(there))
        while line := await reader.readline():
            fault = self._fault_at(line)
            if fault is Fault.CUT_BEFORE:
                return
            if fault is not None and fault.value.strip():
                writer.write(f"{fault.value}\r\n".encode())
                continue
            back.write(line)
            writer.write(await _answer(there))
            if line.upper().startswith(b"DATA"):
                source = await reader.readuntil(b"\r\n.\r\n")
                self.taken.append(str(message_from_bytes(source)["Message-ID"]))
                back.write(source)
                answer = await _answer(there)
                if not await self._tell(writer, answer):
                    return

    def _fault_at(self, line: bytes) -> Fault | None:
        word = line.upper()
        at_rcpt = bool(self.faults) and self.faults[0] in _AT_RCPT and word.startswith(b"RCPT")
        at_data = (
            bool(self.faults) and self.faults[0] is Fault.CUT_BEFORE and word.startswith(b"MAIL")
        )
        return self.faults.pop(0) if at_rcpt or at_data else None

    async def _tell(self, writer: asyncio.StreamWriter, answer: bytes) -> bool:
        """Whether the connection goes on."""
        fault = self.faults.pop(0) if self.faults else None
        if fault is Fault.CUT_AFTER:
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
