"""Server-sent events are parsed the same, however the bytes are split."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.transport import EventTooLong, SseParser

STREAM = (
    b"\xef\xbb\xbf: a comment first\r\n\r\n"
    + (
        'data: {"text":"hällo 🎉"}\n\n'
        "event: named\r\ndata: one\r\ndata: two\r\nid: 7\r\n\r\n"
        "data:without a blank\n\n"
        ": OPENROUTER PROCESSING\n\n"
        "data: by carriage returns\r\r"
        "data: last\n\n"
        "data: [DONE]\n\n"
        "data: never read\n\n"
    ).encode()
)
PAYLOADS = [
    '{"text":"hällo 🎉"}'.encode(),
    b"one\ntwo",
    b"without a blank",
    b"by carriage returns",
    b"last",
]


def split(chunks: list[bytes]) -> tuple[list[bytes], bool]:
    splitter = SseParser()
    payloads = [payload for chunk in chunks for payload in splitter.feed(chunk)]
    return payloads + splitter.flush(), splitter.ended


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_any_chunking_gives_the_same_payloads(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(bounds)]
    assert split(chunks) == (PAYLOADS, True)


def test_byte_by_byte_gives_the_same_payloads() -> None:
    assert split([STREAM[at : at + 1] for at in range(len(STREAM))]) == (PAYLOADS, True)


def test_a_stream_that_ends_without_a_blank_line_gives_its_last_event() -> None:
    assert split([b"data: a\n\ndata: b\n"]) == ([b"a", b"b"], False)
    assert split([b"data: a\r\n\r\ndata: [DONE]\r"]) == ([b"a"], True)


def test_an_endless_event_is_an_error() -> None:
    splitter = SseParser()
    with pytest.raises(EventTooLong):
        for _ in range(40):
            splitter.feed(b"x" * 1_000_000)
