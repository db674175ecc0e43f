"""Errors of a broken connection: plain words, and never the name of an exception."""

import errno
import http.client
import os

import pytest

from holdfast.server.local.control_client import describe_connection_error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (http.client.IncompleteRead(b""), "it closed the connection in the middle of the answer"),
        (
            http.client.RemoteDisconnected("Remote end closed"),
            "it closed the connection in the middle of the answer",
        ),
        (
            ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
            "it closed the connection",
        ),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "it closed the connection"),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
            "no program listens there",
        ),
        (TimeoutError("timed out"), "it did not answer in time"),
        (http.client.BadStatusLine("x"), "its answer is not valid HTTP"),
        (OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)), "network is unreachable"),
        (OSError("odd"), "odd"),
    ],
)
def test_a_broken_connection_is_described_in_plain_words(error: Exception, words: str) -> None:
    assert describe_connection_error(error) == words
