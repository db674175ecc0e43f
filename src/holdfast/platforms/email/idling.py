"""Idling: a server says by itself when there is more (RFC 2177), and nothing of that is missed."""

from imap_tools import BaseMailBox

from holdfast.platforms.email.line import RESPONSE_TIMEOUT


def search_uids(box: BaseMailBox, criteria: str) -> list[str]:
    """What is told from here on is news: a server says that there is more in its answer to any
    command, and says it once."""
    box.client.untagged_responses.pop("EXISTS", None)
    return box.uids(criteria, charset=None)


def start_idle(box: BaseMailBox) -> tuple[bytes, bool]:
    """Its tag, and whether there is something new since the last look: that may have been told
    with an answer meanwhile, or come in one piece with the server's word that it idles, and then
    nothing more would arrive."""
    client = box.client
    tag: bytes = client._command("IDLE")
    while client._get_response() is not None:
        if client.tagged_commands.get(tag) is not None:
            raise client.abort(f"it does not idle: {client.tagged_commands.pop(tag)!r}")
    if "EXISTS" in client.untagged_responses:
        return tag, True
    client.sock.settimeout(0)
    try:
        return tag, bool(client.readline())
    except OSError:  # there is nothing to be read
        return tag, False
    finally:
        client.sock.settimeout(RESPONSE_TIMEOUT)


def end_idle(box: BaseMailBox, tag: bytes) -> None:
    box.client.send(b"DONE\r\n")
    box.consume_until_tagged_response(tag)
