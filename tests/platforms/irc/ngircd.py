"""A real ngircd, and users who are connected to it."""

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.ports import own_ports

from holdfast.platforms.irc.events import IrcMessage, format_line, parse_line

SERVER_PASSWORD = "sesame"
_CONFIGURATION = """
[Global]
Name = irc.test.example
Info = a server for tests
AdminInfo1 = nobody
Listen = 127.0.0.1
Ports = {port}
MotdPhrase = hello
{password}
[Limits]
MaxNickLength = 30
MaxConnectionsIP = 0
MaxPenaltyTime = 0
MaxJoins = 0
[Options]
DNS = no
Ident = no
PAM = no
{tls}
"""
_TLS = """
[SSL]
CertFile = {folder}/certificate.pem
KeyFile = {folder}/secret.pem
Ports = {port}
"""
_PATH = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"


@dataclass(frozen=True, kw_only=True)
class Ngircd:
    """Its ports and its certificate."""

    port: int
    tls_port: int
    certificate: Path


@contextmanager
def running(folder: Path, *, password: str = "", tls: bool = False) -> Iterator[Ngircd]:
    """A running server; its process ends with the context."""
    program = shutil.which("ngircd", path=_PATH)
    if program is None:
        pytest.skip("ngircd is not installed: apt-get install ngircd")
    plain, secret = own_ports(2)
    if tls:
        _make_certificate(folder)
    configuration = _CONFIGURATION.format(
        port=plain,
        password=f"Password = {password}" if password else "",
        tls=_TLS.format(folder=folder, port=secret) if tls else "",
    )
    (folder / "ngircd.conf").write_text(configuration)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-n", "-f", str(folder / "ngircd.conf")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(plain, process)
        yield Ngircd(port=plain, tls_port=secret, certificate=folder / "certificate.pem")
    finally:
        process.terminate()
        process.wait(timeout=30)


def _make_certificate(folder: Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed: apt-get install openssl")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    where = ["-keyout", f"{folder}/secret.pem", "-out", f"{folder}/certificate.pem"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(
        [program, "req", "-x509", *kind, *names, *where], check=True, capture_output=True
    )


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError("ngircd did not start")


@dataclass
class IrcUser:
    """A user with a client; owns the messages they have read."""

    nick: str
    writer: asyncio.StreamWriter
    read: list[IrcMessage] = field(default_factory=list)

    @property
    def mask(self) -> str:
        return f"{self.nick.lower()}!~{self.nick.lower()}@127.0.0.1"

    def do(self, verb: str, *params: str) -> None:
        self.writer.write(format_line(verb, *params))

    def say(self, text: str, to: str) -> None:
        self.do("PRIVMSG", to, text)

    def texts(self) -> list[str]:
        return [message.trailing for message in self.read if message.command == "PRIVMSG"]

    def verbs(self) -> list[str]:
        return [message.command for message in self.read]


@asynccontextmanager
async def irc_user(port: int, nick: str) -> AsyncIterator[IrcUser]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    user = IrcUser(nick, writer)
    user.do("NICK", nick)
    user.do("USER", nick, "0", "*", nick)

    async def listen() -> None:
        while raw := await reader.readline():
            if (message := parse_line(raw)) is not None:
                user.read.append(message)

    listening = asyncio.create_task(listen())
    try:
        while "376" not in user.verbs():
            await asyncio.sleep(0.005)
        yield user
    finally:
        listening.cancel()
        await asyncio.wait({listening})
        writer.transport.abort()
