"""Files as the gateway reaches them: put into a workspace for a message, read to be sent."""

import os
from pathlib import Path
from typing import BinaryIO

from holdfast.core.ids import SessionId
from holdfast.core.messages.attachment import NoAttachment
from holdfast.runner.sandbox import WORKSPACE
from holdfast.runner.workspace import CannotPut, NoSuchFile, Workspace
from holdfast.system.uploads import HandedIn


class WorkspaceFiles:
    """Every method blocks, and belongs into a thread."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def put(self, session_id: SessionId, name: str, data: bytes) -> str:
        try:
            return Workspace(self._home, session_id).put(name, data)
        except CannotPut as error:
            raise NoAttachment(str(error)) from None

    def read(self, session_id: SessionId | None, path: str, most: int) -> bytes:
        """The path as commands of the session would write it, or from the workspace on; without a
        session, that of a file that was handed in."""
        with self._opened(session_id, path) as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise NoAttachment(f"{path!r} is larger than {most // 2**20} MB")
        return data

    def drop(self, path: str) -> None:
        HandedIn(self._home).drop(path)

    def _opened(self, session_id: SessionId | None, path: str) -> BinaryIO:
        if session_id is None:
            return HandedIn(self._home).open(path)
        try:
            found = Workspace(self._home, session_id).look(path.removeprefix(f"{WORKSPACE}/"))
        except NoSuchFile as error:
            raise NoAttachment(str(error)) from None
        if not isinstance(found, int):
            raise NoAttachment(f"{path!r} is a folder, and only files can be sent")
        return os.fdopen(found, "rb")
