"""Receiving: what is attached to a message becomes files of its session, pictures, and text."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ids import SessionId
from holdfast.core.messages.attachment import ATTACHED, Attachment, NoAttachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.message import Image
from holdfast.core.messages.pictures import picture_of
from holdfast.documents.documents import Documents, told
from holdfast.gateway.inbound.wanted_files import is_wanted
from holdfast.gateway.live_settings import InForce
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.resolver import SessionStore

log = logging.getLogger(__name__)

LARGEST = 50 * 1024 * 1024  # bytes of all that is attached to one message
MOST_FILES = 100
MOST_PICTURES = 20  # that a model is shown: providers refuse a request with very many

PutFile = Callable[[SessionId, str, bytes], str]
"""Keeps a file in the workspace of a session, and says under which path; it blocks. The same data
under the same name is the same file. Raises `NoAttachment` where it cannot be kept there."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """An attachment as it came, or the reason why it did not."""

    name: str
    data: bytes = b""
    missing: str = ""


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one attachment: it has a path, or a reason why it has none."""

    name: str
    path: str = ""
    missing: str = ""
    image: Image | None = None


class Receiving:
    """Keeps nothing itself. `put` None: this gateway has no place for files."""

    def __init__(
        self,
        sessions: SessionStore,
        *,
        in_force: InForce,
        documents: Documents,
        put: PutFile | None,
        redact: Redaction,
    ) -> None:
        self._sessions = sessions
        self._in_force = in_force
        self._documents = documents
        self._redact = redact  # why a door could not fetch a file, and what a document says
        self._put = put

    async def received(self, inbound: Inbound, attached: Sequence[Attachment]) -> Inbound:
        """The message, with a line that names its files, its pictures, and what its documents say.
        The files are kept before the message is: one that is accepted never names what is not
        there."""
        account = self._account(inbound)
        fetched: list[Fetched] = []
        for each in attached[:MOST_FILES]:
            room = LARGEST - sum(len(one.data) for one in fetched)
            fetched.append(await self._fetch(each, account, room=room))
        found = await self._documents.read(fetched, limit=account.file_chars)
        # Asked for last: what is fetched takes its time, and a /new meanwhile would leave the
        # files behind in the session before.
        session = await self._sessions.get_or_create_session(inbound.source)
        taken = [await self._receive(session.id, one) for one in fetched]
        lines = self._redact(_lines(taken, left_out=len(attached) - len(taken)))
        text = f"{inbound.text}\n\n{lines}" if inbound.text.strip() else lines
        images = [one.image for one in taken if one.image is not None][:MOST_PICTURES]
        paths = (one.path for one in taken)
        return msgspec.structs.replace(
            inbound,
            text=text,
            images=(*inbound.images, *images),
            documents=self._redact(told(zip(paths, found, strict=True))),
        )

    def _account(self, inbound: Inbound) -> PlatformSettings:
        source, settings = inbound.source, self._in_force.settings
        return settings.account(source.platform, source.account) or PlatformSettings()

    async def _fetch(self, one: Attachment, account: PlatformSettings, *, room: int) -> Fetched:
        if self._put is None:
            return Fetched(name=one.name, missing="this gateway keeps no files")
        if not await is_wanted(one.name, account.files):
            return Fetched(name=one.name, missing="files of this kind are not taken here")
        too_large = f"it is larger than {LARGEST // 2**20} MB"
        if one.size is not None and one.size > room:
            return Fetched(name=one.name, missing=too_large)
        try:
            data = await one.fetch()
        except NoAttachment as error:
            return _not_kept(one.name, error)
        if len(data) > room:
            return Fetched(name=one.name, missing=too_large)
        return Fetched(name=one.name, data=data)

    async def _receive(self, session_id: SessionId, one: Fetched) -> Received:
        if one.missing or self._put is None:
            return Received(name=one.name, missing=one.missing)
        try:
            path = await asyncio.to_thread(self._put, session_id, one.name, one.data)
        except NoAttachment as error:
            return Received(name=one.name, missing=_not_kept(one.name, error).missing)
        return Received(name=one.name, path=path, image=picture_of(one.data))


def _not_kept(name: str, error: NoAttachment) -> Fetched:
    log.info("%r was not kept: %s", name, error, extra={"action": "not_attached"})
    return Fetched(name=name, missing=str(error))


def _lines(taken: Sequence[Received], *, left_out: int) -> str:
    """For the agent, which also has to tell its user what did not come."""
    paths = ", ".join(one.path for one in taken if one.path)
    lines = [f"{ATTACHED}in the workspace: {paths}]"] if paths else []
    lines += [
        f"{ATTACHED}and not here: {_plain(one.name)} ({one.missing})]"
        for one in taken
        if one.missing
    ]
    if left_out:
        lines.append(f"{ATTACHED}and not here: {left_out} more; {MOST_FILES} are taken at a time]")
    return "\n".join(lines)


def _plain(name: str) -> str:
    """A name of somebody's choosing: one short line, that cannot end the brackets it stands in."""
    return "".join(c if c.isprintable() and c not in "[]" else "_" for c in name)[:80]
