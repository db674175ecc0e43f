"""Errors of a broken connection: plain words, and never the name of an exception."""

import errno
import http.client
import os

import pytest

from holdfast.server.local.control_client import describe_connection_error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (http.client.IncompleteRead(b""), "it hung up half-way"),
        (http.client.RemoteDisconnected("Remote end closed"), "it hung up half-way"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "it hung up"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "it hung up"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "nothing listens there"),
        (TimeoutError("timed out"), "nothing was heard from it for too long"),
        (http.client.BadStatusLine("x"), "it answers in a form that is not HTTP"),
        (OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)), "network is unreachable"),
        (OSError("odd"), "odd"),
    ],
)
def test_a_broken_connection_is_described_in_plain_words(error: Exception, words: str) -> None:
    assert describe_connection_error(error) == words
