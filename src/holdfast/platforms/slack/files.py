"""Files that people send: which of them a message has, and how each is fetched."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, Throttled
from holdfast.core.messages.attachment import Attachment, NoAttachment
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.wire import File, FileInfo

# https://docs.slack.dev/reference/objects/file-object: deleted, beyond the limits of a free
# workspace, kept elsewhere.
_NOT_THERE = {
    "tombstone": "it was deleted",
    "hidden_by_limit": "Slack keeps it behind a paid plan",
    "external": "it is kept outside of Slack",
}


def attached_to(
    files: Sequence[File], api: WebApi, *, most: int, last_try: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
    return tuple(
        Attachment(
            name=file.name or f"file-{file.id}",
            size=file.size,
            fetch=_fetching(file, api, most=most, last=last_try),
        )
        for file in files
    )


def _fetching(file: File, api: WebApi, *, most: int, last: bool) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await _fetched(file, api, most=most)
        except (OutcomeUnknown, Throttled, NotConnected) as error:  # asking again does no harm
            if last:
                raise NoAttachment(f"it could not be fetched: {error}") from error
            raise NotConnected(str(error)) from error
        except Refused as error:
            raise NoAttachment(str(error)) from error

    return fetch


async def _fetched(file: File, api: WebApi, *, most: int) -> bytes:
    if (why := _NOT_THERE.get(file.mode)) is not None:
        raise NoAttachment(why)
    if file.file_access == "check_file_info":
        # #file_access: of a channel shared with another workspace comes only the name of a file.
        file = (await api.ask("files.info", FileInfo, file=file.id)).file
    address = file.url_private_download or file.url_private
    if not address:
        raise NoAttachment("Slack does not say where it is")
    return await api.download(address, most=most)
