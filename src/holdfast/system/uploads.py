"""Files that the owner uploaded to be sent: kept in the home until they are delivered."""

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
    """Owns `outgoing/` in the home: a folder for each file, named by a key of ours. Every method
    blocks, and belongs into a thread."""

    def __init__(self, home: Path) -> None:
        self._folder = Paths(home).outgoing

    def create(self, key: str, name: str) -> BinaryIO:
        """A new file, to be written and then kept or dropped."""
        return open(private_dir(private_dir(self._folder) / key) / name, "xb")

    def save(self, key: str, file: BinaryIO) -> None:
        """Returns once it is durable."""
        with file:
            file.flush()
            os.fsync(file.fileno())
        _fsync_dir(self._folder / key)
        _fsync_dir(self._folder)

    def find(self, key: str) -> str | None:
        """The path of what was handed in under that key, as the other methods take it."""
        if not _KEY.fullmatch(key) or not (place := self._folder / key).is_dir():
            return None
        return next((f"{key}/{file.name}" for file in place.iterdir()), None)

    def assign(self, path: str, owner: str) -> str:
        """What was handed in is one delivery's from now on, under its name, and nobody else's; one
        that has a file already is asked for again, and this copy is dropped."""
        key, _, name = path.partition("/")
        try:
            (self._folder / key).rename(self._folder / owner)
        except OSError:
            self.remove(key)
        return f"{owner}/{name}"

    def open(self, path: str) -> BinaryIO:
        """Raises `AttachmentUnavailable` where it is there no longer."""
        try:
            return open(self._folder / path, "rb")
        except OSError:
            name = path.rpartition("/")[2]
            raise AttachmentUnavailable(
                f"{name!r}, which was handed in to be sent, is gone"
            ) from None

    def remove(self, path: str) -> None:
        """One that is gone already is no error."""
        key = path.partition("/")[0]
        if _KEY.fullmatch(key):
            shutil.rmtree(self._folder / key, ignore_errors=True)

    def remove_expired(self, *, now: float) -> None:
        """Forget what nobody has sent for long: whoever handed it in did not go on."""
        for place in self._folder.glob("*/"):
            with suppress(FileNotFoundError):
                if place.stat().st_mtime < now - _MAX_AGE:
                    shutil.rmtree(place, ignore_errors=True)


def _fsync_dir(folder: Path) -> None:
    """A file is found again after a power cut once its folder is written, too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
