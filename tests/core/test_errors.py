"""The texts of errors, as people read them."""

import asyncio

import aiohttp
import pytest

from holdfast.core.errors import ConnectError, HoldfastError, without_errno


async def test_an_error_of_the_system_is_shown_without_its_number() -> None:
    try:
        await asyncio.open_connection("127.0.0.1", 1)
    except OSError as error:
        shown = ConnectError("{host} cannot be reached: {error}", host="irc.example", error=error)
        assert "[Errno" in str(error)
    expected = "irc.example cannot be reached: Connection refused ('127.0.0.1', 1)"
    assert (str(shown), shown.for_person()) == (expected, expected)


async def test_an_http_connection_that_fails_is_shown_with_its_reason() -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get("https://127.0.0.1:1/")
    shown = ConnectError("The service cannot be reached: {error}.", error=caught.value)
    expected = "The service cannot be reached: Cannot connect to 127.0.0.1:1: Connection refused."
    assert (str(shown), shown.for_person()) == (expected, expected)
    assert shown.text.for_person() == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[Errno 2] No such file or directory: 'a'", "No such file or directory: 'a'"),
        ("[Errno -2] Name or service not known", "Name or service not known"),
        (
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 9), [Errno 113] Connect "
            "call failed ('10.0.0.1', 9)",
            "Multiple exceptions: Connection refused ('::1', 9), No route to host ('10.0.0.1', 9)",
        ),
        ("[Error] stays", "[Error] stays"),
        (
            "Cannot connect to host localhost:1 ssl:default [Multiple exceptions: [Errno 111] "
            "Connect call failed ('::1', 1, 0, 0), [Errno 111] Connect call failed ('127.0.0.1', "
            "1)]. Wait.",
            "Cannot connect to localhost:1: Multiple exceptions: Connection refused ('::1', 1, 0, "
            "0), Connection refused ('127.0.0.1', 1). Wait.",
        ),
        (
            "Cannot connect to host no.example:80 ssl:False [Domain name not found]",
            "Cannot connect to no.example:80: Domain name not found",
        ),
        (
            "Cannot connect to host 127.0.0.1:1 ssl:default [Connect call failed ('127.0.0.1', 1)]",
            "Cannot connect to 127.0.0.1:1",
        ),
    ],
)
def test_numbers_are_removed_wherever_they_are(text: str, shown: str) -> None:
    assert without_errno(text) == shown
    assert str(HoldfastError(text)) == shown
