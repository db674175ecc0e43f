"""Receiving: what is attached to a message becomes files of its session, and pictures."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.attachment import Attachment, NoAttachment
from holdfast.core.ids import SessionId
from holdfast.core.inbox import Inbound
from holdfast.core.message import Image
from holdfast.core.pictures import picture_of
from holdfast.gateway.sessions import SessionStore

log = logging.getLogger(__name__)

LARGEST = 50 * 1024 * 1024  # bytes of all that is attached to one message

PutFile = Callable[[SessionId, str, bytes], str]
"""Keeps a file in the workspace of a session, and says under which path; it blocks. The same data
under the same name is the same file. Raises `NoAttachment` where it cannot be kept there."""


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one attachment: it has a path, or a reason why it has none."""

    name: str
    size: int = 0
    path: str = ""
    missing: str = ""
    image: Image | None = None


class Receiving:
    """Keeps nothing itself. `put` None: this gateway has no place for files."""

    def __init__(self, sessions: SessionStore, *, put: PutFile | None) -> None:
        self._sessions = sessions
        self._put = put

    async def received(self, inbound: Inbound, attached: Sequence[Attachment]) -> Inbound:
        """The message, with a line that names its files, and its pictures. The files are kept
        before the message is: one that is accepted never names what is not there."""
        session = await self._sessions.get_or_create_session(inbound.source)
        taken: list[Received] = []
        for each in attached:
            room = LARGEST - sum(one.size for one in taken)
            taken.append(await self._receive(session.id, each, room=room))
        lines = _lines(taken)
        text = f"{inbound.text}\n\n{lines}" if inbound.text.strip() else lines
        images = tuple(one.image for one in taken if one.image is not None)
        return msgspec.structs.replace(inbound, text=text, images=(*inbound.images, *images))

    async def _receive(self, session_id: SessionId, one: Attachment, *, room: int) -> Received:
        if self._put is None:
            return Received(name=one.name, missing="this gateway keeps no files")
        too_large = f"it is larger than {LARGEST // 2**20} MB"
        if one.size is not None and one.size > room:
            return Received(name=one.name, missing=too_large)
        try:
            data = await one.fetch()
            if len(data) > room:
                return Received(name=one.name, missing=too_large)
            path = await asyncio.to_thread(self._put, session_id, one.name, data)
            return Received(name=one.name, size=len(data), path=path, image=picture_of(data))
        except NoAttachment as error:
            log.info("%r was not kept: %s", one.name, error, extra={"action": "not_attached"})
            return Received(name=one.name, missing=str(error))


def _lines(taken: Sequence[Received]) -> str:
    """For the agent, which also has to tell its user what did not come."""
    paths = ", ".join(one.path for one in taken if one.path)
    lines = [f"[Attached, in the workspace: {paths}]"] if paths else []
    lines += [
        f"[Attached, and not here: {_plain(one.name)} ({one.missing})]"
        for one in taken
        if one.missing
    ]
    return "\n".join(lines)


def _plain(name: str) -> str:
    """A name of somebody's choosing: one short line, that cannot end the brackets it stands in."""
    return "".join(c if c.isprintable() and c not in "[]" else "_" for c in name)[:80]
