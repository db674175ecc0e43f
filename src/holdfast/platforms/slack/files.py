"""Files that people send: which of them a message has, and how each is fetched."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected, Throttled
from holdfast.core.messages.attachment import Attachment, AttachmentUnavailable
from holdfast.platforms.slack.api import SlackClient
from holdfast.platforms.slack.wire import SlackFile, SlackFileResponse

# https://docs.slack.dev/reference/objects/file-object: deleted, beyond the limits of a free
# workspace, kept elsewhere.
_UNAVAILABLE_MODES = {
    "tombstone": "it was deleted",
    "hidden_by_limit": "Slack keeps it behind a paid plan",
    "external": "it is kept outside of Slack",
}


def attachments_of(
    files: Sequence[SlackFile], client: SlackClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
    return tuple(
        Attachment(
            name=file.name or f"file-{file.id}",
            size=file.size,
            fetch=_make_fetch(file, client, max_bytes=max_bytes, last_attempt=last_attempt),
        )
        for file in files
    )


def _make_fetch(
    file: SlackFile, client: SlackClient, *, max_bytes: int, last_attempt: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await _fetch_file(file, client, max_bytes=max_bytes)
        except (OutcomeUnknown, Throttled, NotConnected) as error:  # asking again does no harm
            if last_attempt:
                raise AttachmentUnavailable(f"it could not be fetched: {error}") from error
            raise NotConnected(str(error)) from error
        except SendRejected as error:
            raise AttachmentUnavailable(str(error)) from error

    return fetch


async def _fetch_file(file: SlackFile, client: SlackClient, *, max_bytes: int) -> bytes:
    if (why := _UNAVAILABLE_MODES.get(file.mode)) is not None:
        raise AttachmentUnavailable(why)
    if file.file_access == "check_file_info":
        # #file_access: of a channel shared with another workspace comes only the name of a file.
        file = (await client.call_form("files.info", SlackFileResponse, file=file.id)).file
    address = file.url_private_download or file.url_private
    if not address:
        raise AttachmentUnavailable("Slack does not say where it is")
    return await client.download(address, max_bytes=max_bytes)
