"""Uploaded files of the owner, stored in the home until they are delivered."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.system.paths import Paths, private_dir

_KEY = re.compile(r"[A-Za-z0-9_]{1,80}", re.ASCII)
_MAX_AGE = 30 * 86400.0  # seconds: what has not been sent by then never will be


class UploadedFiles:
    """Owns `outgoing/` in the home: a folder for each file, named by a generated key. Every method
    blocks: call them in a thread."""

    def __init__(self, home: Path) -> None:
        self._folder = Paths(home).outgoing

    def create(self, key: str, name: str) -> BinaryIO:
        """A new file, to be written and then saved or removed."""
        return open(private_dir(private_dir(self._folder) / key) / name, "xb")

    def save(self, key: str, file: BinaryIO) -> None:
        """Returns once it is durable."""
        with file:
            file.flush()
            os.fsync(file.fileno())
        _fsync_dir(self._folder / key)
        _fsync_dir(self._folder)

    def find(self, key: str) -> str | None:
        """The path of the file with that key, as the other methods take it."""
        if not _KEY.fullmatch(key) or not (folder := self._folder / key).is_dir():
            return None
        return next((f"{key}/{file.name}" for file in folder.iterdir()), None)

    def assign(self, path: str, owner: str) -> str:
        """Give the file to one delivery, under its name. If that delivery has a file already, the
        request is a repetition, and this copy is removed."""
        key, _, name = path.partition("/")
        try:
            (self._folder / key).rename(self._folder / owner)
        except OSError:
            self.remove(key)
        return f"{owner}/{name}"

    def open(self, path: str) -> BinaryIO:
        """Raises `AttachmentUnavailable` if it does not exist any more."""
        try:
            return open(self._folder / path, "rb")
        except OSError:
            name = path.rpartition("/")[2]
            raise AttachmentUnavailable(
                "the uploaded file {name!r} no longer exists", name=name
            ) from None

    def remove(self, path: str) -> None:
        """No error if it does not exist."""
        key = path.partition("/")[0]
        if _KEY.fullmatch(key):
            shutil.rmtree(self._folder / key, ignore_errors=True)

    def remove_expired(self, *, now: float) -> None:
        """Remove uploads that were not sent for a long time."""
        for folder in self._folder.glob("*/"):
            with suppress(FileNotFoundError):
                if folder.stat().st_mtime < now - _MAX_AGE:
                    shutil.rmtree(folder, ignore_errors=True)


def _fsync_dir(folder: Path) -> None:
    """A new file survives a power cut only after its folder is synced too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
