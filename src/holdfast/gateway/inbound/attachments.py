"""Stores the attachments of a message in the workspace of its session.

The text of documents and the images become part of the message.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import ATTACHED_PREFIX, Attachment, AttachmentUnavailable
from holdfast.core.messages.transcript import Image, detect_image
from holdfast.documents.reader import DocumentReader, render_documents
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.resolver import SessionStore

log = logging.getLogger(__name__)


ANY_TYPE = "*"
MAX_TOTAL_BYTES = 50 * 1024 * 1024  # of all attachments of one message
MAX_FILES = 100
MAX_IMAGES = 20  # per message to the model: providers refuse requests with very many

StoreFile = Callable[[SessionId, str, bytes], str]
"""Stores a file in the workspace of a session and returns its path; it blocks. The same data under
the same name is the same file. Raises `AttachmentUnavailable` if it cannot be stored."""


async def is_accepted_type(name: str, patterns: Sequence[str]) -> bool:
    """Whether the account takes a file of this name. A pattern is an ending (`.csv`) or a media
    type (`image/*`)."""
    if ANY_TYPE in patterns:
        return True
    # In a thread: mimetypes reads files of this machine, once.
    return await asyncio.to_thread(_matches, name.lower(), patterns)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    import mimetypes  # noqa: PLC0415 - only for accounts that restrict types

    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return any(
        name.endswith(pattern.lower())
        if pattern.startswith(".")
        else fnmatchcase(media_type, pattern.lower())
        for pattern in patterns
    )


class FetchedAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """The data of an attachment, or the reason why it is missing."""

    name: str
    data: bytes = b""
    missing: str = ""


class StoredAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """The path of a stored attachment, or the reason why it has none."""

    name: str
    path: str = ""
    missing: str = ""
    image: Image | None = None


async def attach_files(
    sessions: SessionStore,
    live_settings: LiveSettings,
    document_reader: DocumentReader,
    store_file: StoreFile | None,
    redact: Redaction,
    inbound: Inbound,
    attached: Sequence[Attachment],
) -> Inbound:
    """The message with a line that names its files, its pictures and the text of its documents. The
    files are stored before the message, so that an accepted message never names a missing file.
    `store_file` None: this gateway does not store files. The texts of documents and the reasons why
    a file could not be fetched are redacted."""
    source = inbound.source
    account = live_settings.current.account(source.platform, source.account) or PlatformSettings()
    fetched: list[FetchedAttachment] = []
    for each in attached[:MAX_FILES]:
        room = MAX_TOTAL_BYTES - sum(len(one.data) for one in fetched)
        if store_file is None:
            fetched.append(
                FetchedAttachment(name=each.name, missing="this gateway stores no files")
            )
        else:
            fetched.append(await _fetch(each, account, room=room))
    found = await document_reader.read(fetched, limit=account.file_chars)
    # Last, because fetching takes time: a /new meanwhile would leave the files in the old session.
    session = await sessions.get_or_create_session(source)
    stored = [await _store(session.id, one, store_file) for one in fetched]
    lines = redact(_attachment_lines(stored, left_out=len(attached) - len(stored)))
    text = f"{inbound.text}\n\n{lines}" if inbound.text.strip() else lines
    images = [one.image for one in stored if one.image is not None][:MAX_IMAGES]
    paths = (one.path for one in stored)
    return msgspec.structs.replace(
        inbound,
        text=text,
        images=(*inbound.images, *images),
        documents=redact(render_documents(zip(paths, found, strict=True))),
    )


async def _fetch(one: Attachment, account: PlatformSettings, *, room: int) -> FetchedAttachment:
    if not await is_accepted_type(one.name, account.files):
        return FetchedAttachment(name=one.name, missing="this kind of file is not accepted here")
    too_large = f"it is larger than {MAX_TOTAL_BYTES // 2**20} MB"
    if one.size is not None and one.size > room:
        return FetchedAttachment(name=one.name, missing=too_large)
    try:
        data = await one.fetch()
    except AttachmentUnavailable as error:
        return _missing(one.name, error)
    if len(data) > room:
        return FetchedAttachment(name=one.name, missing=too_large)
    return FetchedAttachment(name=one.name, data=data)


async def _store(
    session_id: SessionId, one: FetchedAttachment, store_file: StoreFile | None
) -> StoredAttachment:
    if one.missing or store_file is None:
        return StoredAttachment(name=one.name, missing=one.missing)
    try:
        path = await asyncio.to_thread(store_file, session_id, one.name, one.data)
    except AttachmentUnavailable as error:
        return StoredAttachment(name=one.name, missing=_missing(one.name, error).missing)
    return StoredAttachment(name=one.name, path=path, image=detect_image(one.data))


def _missing(name: str, error: AttachmentUnavailable) -> FetchedAttachment:
    log.info(
        "Could not store attachment %r: %s; the agent gets the message without it",
        name,
        error,
        extra={"action": "attachment_missing"},
    )
    return FetchedAttachment(name=name, missing=str(error))


def _attachment_lines(stored: Sequence[StoredAttachment], *, left_out: int) -> str:
    """For the agent, which also has to tell its user which files are missing."""
    paths = ", ".join(one.path for one in stored if one.path)
    lines = [f"{ATTACHED_PREFIX}in the workspace: {paths}]"] if paths else []
    lines += [
        f"{ATTACHED_PREFIX}and not here: {_safe_name(one.name)} ({one.missing})]"
        for one in stored
        if one.missing
    ]
    if left_out:
        lines.append(
            f"{ATTACHED_PREFIX}and not here: {left_out} more; {MAX_FILES} are taken at a time]"
        )
    return "\n".join(lines)


def _safe_name(name: str) -> str:
    """A name chosen by the sender, as one short line that cannot close the brackets around it."""
    return "".join(c if c.isprintable() and c not in "[]" else "_" for c in name)[:80]
