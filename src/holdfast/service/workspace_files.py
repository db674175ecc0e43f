"""Files as the gateway reaches them: put into a workspace for a message, read to be sent."""

import os
from pathlib import Path
from typing import BinaryIO

from holdfast.core.ids import SessionId
from holdfast.core.messages.attachment import AttachmentUnavailable
from holdfast.runner.sandbox import WORKSPACE
from holdfast.runner.workspace import CannotSaveFile, NoSuchFile, Workspace
from holdfast.system.uploads import UploadedFiles


class WorkspaceFiles:
    """Every method blocks, and belongs into a thread."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def put(self, session_id: SessionId, name: str, data: bytes) -> str:
        try:
            return Workspace(self._home, session_id).save_upload(name, data)
        except CannotSaveFile as error:
            raise AttachmentUnavailable(str(error)) from None

    def read(self, session_id: SessionId | None, path: str, max_bytes: int) -> bytes:
        """The path as commands of the session would write it, or from the workspace on; without a
        session, that of a file that was handed in."""
        with self._open(session_id, path) as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise AttachmentUnavailable(f"{path!r} is larger than {max_bytes // 2**20} MB")
        return data

    def drop(self, path: str) -> None:
        UploadedFiles(self._home).remove(path)

    def _open(self, session_id: SessionId | None, path: str) -> BinaryIO:
        if session_id is None:
            return UploadedFiles(self._home).open(path)
        try:
            found = Workspace(self._home, session_id).list_or_open(
                path.removeprefix(f"{WORKSPACE}/")
            )
        except NoSuchFile as error:
            raise AttachmentUnavailable(str(error)) from None
        if not isinstance(found, int):
            raise AttachmentUnavailable(f"{path!r} is a folder, and only files can be sent")
        return os.fdopen(found, "rb")
