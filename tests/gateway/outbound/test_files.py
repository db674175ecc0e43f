"""Outgoing files: secrets in them are found, and the scan does not block the event loop."""

import pytest

from holdfast.core.errors import SendRejected
from holdfast.core.ids import SessionId
from holdfast.core.messages.outbox import PendingFile
from holdfast.core.secrets import Secret
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.redaction import Redaction

KEY = "sk_live_4f9ac2e7"
SPELLINGS = (KEY, KEY.replace("_", "\\_"), KEY.replace("_", "&#95;"))
FILE = PendingFile(workspace=SessionId("ses_1"), path="notes/a.txt")


class LengthRecordingRedaction(Redaction):
    """Records the lengths of the texts that it is given."""

    def __init__(self) -> None:
        super().__init__([Secret(KEY)])
        self.lengths: list[int] = []

    def __call__(self, text: str) -> str:
        self.lengths.append(len(text))
        return super().__call__(text)


def outgoing(data: bytes, redact: Redaction) -> OutgoingFiles:
    return OutgoingFiles(lambda *_: data, redact=redact)


async def test_a_large_file_is_scanned_in_chunks() -> None:
    """Law 14: scanning one large text would block the event loop."""
    redact = LengthRecordingRedaction()
    data = b"\xc3\xa9 nothing to hide " * 300_000
    assert (await outgoing(data, redact).load(FILE)).data == data
    assert max(redact.lengths) < 128 * 1024


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("offset", range(64 * 1024 - 24, 64 * 1024 + 2))
async def test_a_secret_is_found_at_any_chunk_boundary(spelling: str, offset: int) -> None:
    """Law 13: also across the boundary of two chunks."""
    data = b"x" * offset + spelling.encode() + b"y" * 70_000
    with pytest.raises(SendRejected, match="secret"):
        await outgoing(data, Redaction([Secret(KEY)])).load(FILE)


async def test_an_empty_file_can_be_sent() -> None:
    sent = await outgoing(b"", Redaction([Secret(KEY)])).load(FILE)
    assert (sent.name, sent.data) == ("a.txt", b"")
