"""The head of the audit at receivers on this machine, and what can be verified with it (K2)."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner
from tests.support.gateway_harness import ManualClock
from tests.support.stores import open_store

from holdfast.cli.root import cli
from holdfast.config import ConfigError, load
from holdfast.core.config.settings import AuditSettings
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.store import HomeStore
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.core.secrets import Secret
from holdfast.platforms.webhook.plugin import HookSettings, SignatureScheme
from holdfast.platforms.webhook.signatures import InvalidSignature, SignatureVerifier
from holdfast.server.audit_heads import AuditHead, AuditHeadSender
from holdfast.system.paths import Paths

SECRET = Secret("a-secret-of-more-than-sixteen-characters")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[HomeStore]:
    async with open_store(Paths(tmp_path).db) as store:
        yield store


async def record(store: HomeStore, subject: str) -> None:
    entry = AuditEntry(kind=AuditKind.ACCOUNT_PAUSED, actor="operator", at=1.0, subject=subject)
    await store.write(RecordAudit(entry=entry))


def sender(store: HomeStore, settings: AuditSettings) -> AuditHeadSender:
    return AuditHeadSender(
        settings,
        store,
        secret=SECRET,
        gateway="attic",
        clock=ManualClock(),
        new_id=lambda prefix: f"{prefix}_1",
    )


async def test_a_webhook_gets_the_head_signed_with_the_secret(store: HomeStore) -> None:
    received: list[tuple[dict[str, str], bytes]] = []

    async def receive(request: web.Request) -> web.Response:
        received.append((dict(request.headers), await request.read()))
        return web.Response()

    app = web.Application()
    app.router.add_post("/heads", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    await record(store, "one")
    url = f"http://127.0.0.1:{port}/heads"
    await sender(store, AuditSettings(webhook=url, webhook_secret="env:X")).send()
    await runner.cleanup()
    ((headers, body),) = received
    head = msgspec.json.decode(body, type=AuditHead)
    assert (head.gateway, head.seq) == ("attic", 1)
    assert re.fullmatch(r"1:[0-9a-f]{64}", head.head)
    hook = HookSettings(scheme=SignatureScheme.STANDARD, secret="env:X")
    verifier = SignatureVerifier(hook, SECRET, clock=ManualClock())
    small = {name.lower(): value for name, value in headers.items()}
    verifier.verify(small, body)
    with pytest.raises(InvalidSignature):
        verifier.verify(small, body.replace(b'"seq":1', b'"seq":2'))


@pytest.mark.parametrize("kind", ["udp", "unix"])
async def test_syslog_gets_the_head(store: HomeStore, tmp_path: Path, kind: str) -> None:
    family = socket.AF_INET if kind == "udp" else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(10)
        if kind == "udp":
            receiver.bind(("127.0.0.1", 0))
            target = f"udp://127.0.0.1:{receiver.getsockname()[1]}"
        else:
            receiver.bind(str(tmp_path / "log"))
            target = f"unix://{tmp_path / 'log'}"
        await record(store, "one")
        await sender(store, AuditSettings(syslog=target)).send()
        message = receiver.recv(4096).decode()
    assert re.fullmatch(r"<85>1 - attic holdfast - audit-head - 1:[0-9a-f]{64}", message)


async def test_a_receiver_that_is_gone_is_tried_again_at_the_next_interval(
    store: HomeStore, tmp_path: Path
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            raise asyncio.CancelledError

    await record(store, "one")
    settings = AuditSettings(
        syslog=f"unix://{tmp_path / 'gone'}", webhook="http://127.0.0.1:9/x", interval=7
    )
    heads = AuditHeadSender(
        settings,
        store,
        secret=SECRET,
        gateway="attic",
        clock=ManualClock(),
        new_id=lambda prefix: f"{prefix}_1",
        sleep=sleep,
    )
    with pytest.raises(asyncio.CancelledError):
        await heads.run()
    assert waited == [7, 7]


def test_a_head_reveals_a_rewritten_audit_and_a_cut_end(tmp_path: Path) -> None:
    """Neither breaks the chain."""
    db = Paths(tmp_path).db

    async def write(path: Path, *subjects: str) -> None:
        async with open_store(path) as store:
            for subject in subjects:
                await record(store, subject)

    def head() -> str:
        connection = apsw.Connection(str(db))
        seq, digest = connection.execute(
            "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
        ).fetchall()[0]
        connection.close()
        return f"{seq}:{bytes(digest).hex()}"

    def verify(*heads: str) -> tuple[int, str]:
        given = [word for each in heads for word in ("--head", each)]
        done = CliRunner().invoke(cli, ["audit", "verify", "--home", str(tmp_path), *given])
        return done.exit_code, done.output

    def rebuild(*subjects: str) -> None:
        for file in db.parent.glob("state.db*"):
            file.unlink()
        asyncio.run(write(db, *subjects))

    asyncio.run(write(db, "one", "two"))
    first = head()
    asyncio.run(write(db, "three"))
    last = head()
    assert verify(first, last)[0] == 0
    rebuild("one", "two")
    assert verify(first)[0] == 0
    code, output = verify(first, last)
    assert (code, "row 3 is missing: the rows end at 2" in output) == (1, True)
    rebuild("one", "forged", "three")
    assert verify()[0] == 0
    code, output = verify(first)
    assert (code, "row 2 is not the row whose head was sent" in output) == (1, True)
    assert verify("2:short")[0] == 2


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('webhook = "https://example.org/x"', "audit.webhook_secret"),
        ('syslog = "tcp://example.org"', "audit.syslog"),
        ('webhook = "ftp://example.org/x"', "audit.webhook"),
    ],
)
def test_a_receiver_that_cannot_be_used_is_refused(tmp_path: Path, line: str, key: str) -> None:
    (tmp_path / "holdfast.toml").write_text(f"[audit]\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {})
    assert key in str(caught.value)
