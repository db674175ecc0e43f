"""A session's workspace as the gateway accesses it: listed, read and written without following
links.

Its files were put there by commands that the gateway does not trust, and the gateway may have more
rights than they. So no path is ever given to the kernel whole: each part is opened from the folder
before it, and none of them may be a link.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.runner.paths import SessionPaths
from holdfast.runner.program.spool import open_folder

UPLOADS = "uploads"
_MAX_LISTED = 2000
_MAX_DEPTH = 32
_MAX_NAME = 120
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NoSuchFile(HoldfastError):
    """Nothing is there that may be read: nothing at all, a link, or a thing that is no file."""


class CannotSaveFile(HoldfastError):
    """A file could not be put into the workspace."""


class CannotRemoveWorkspace(HoldfastError):
    """The workspace, or something in it, is there still."""


class WorkspaceFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size: int
    modified_at: float


class Workspace:
    """The folder of one session. Every method blocks, and belongs into a thread."""

    def __init__(self, home: Path, session_id: SessionId) -> None:
        self._home = home
        self._folder = SessionPaths(home.absolute(), session_id).workspace

    def list_or_open(self, path: str) -> list[WorkspaceFile] | int:
        """The plain files below a folder, or a descriptor of the file that has this path."""
        parts = _parts(path)
        with self._open(parts[:-1]) as folder:
            if not parts:
                return sorted(_list_files(folder, ""), key=lambda entry: entry.path)
            if self._is_home_file(parts[-1], folder):
                raise NoSuchFile("{path!r} is a hard link to a file of the home", path=path)
            fd = _open_entry(parts[-1], folder, path)
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return fd
            try:
                found = _list_files(fd, f"{'/'.join(parts)}/")
                return sorted(found, key=lambda entry: entry.path)
            finally:
                os.close(fd)

    def save_upload(self, name: str, data: bytes) -> str:
        """Keep data as a new file under uploads/; its path. The same data under the same name
        is the same file, so that a message that is sent again says the same."""
        try:
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with self._open(()) as folder, _ensure_folder(UPLOADS, folder) as uploads:
                return f"{UPLOADS}/{self._save_unique(safe_name(name), data, uploads)}"
        except (OSError, NoSuchFile) as error:
            raise CannotSaveFile(
                "{name!r} cannot be saved in the workspace: {error}", name=name, error=error
            ) from None

    def remove(self) -> None:
        """Raises if a part of it remains: the caller would believe that it is gone."""
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._folder.exists():
            raise CannotRemoveWorkspace(
                "{folder} could not be removed completely. Remove it yourself, then delete "
                "the session again",
                folder=self._folder,
            )

    def _is_home_file(self, name: str, folder: int) -> bool:
        """Whether a command without a sandbox has given a file of the home a second name here. To
        open and close the database under any name would drop the locks that its owner has on it,
        and its keys must not be read."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        if found.st_nlink == 1 or not stat.S_ISREG(found.st_mode):
            return False
        for ours in os.listdir(self._home):
            with contextlib.suppress(FileNotFoundError):  # gone since
                if os.path.samestat(found, os.lstat(self._home / ours)):
                    return True
        return False

    def _save_unique(self, name: str, data: bytes, folder: int) -> str:
        stem, dot, ending = name.rpartition(".")
        for number in range(1, 1000):
            tried = (
                name
                if number == 1
                else f"{stem or ending}-{number}{dot if stem else ''}" + (ending if stem else "")
            )
            try:
                fd = os.open(tried, _CREATE_FLAGS, 0o644, dir_fd=folder)
            except FileExistsError:
                if not self._is_home_file(tried, folder) and _has_content(tried, data, folder):
                    return tried
                continue
            with open(fd, "wb") as file:
                file.write(data)
            _give_to_owner(tried, folder)
            return tried
        raise CannotSaveFile("uploads/ already has a thousand files named {name!r}", name=name)

    @contextlib.contextmanager
    def _open(self, parts: tuple[str, ...]) -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            try:
                folder = open_folder(str(self._folder))
                stack.callback(os.close, folder)
                for part in parts:
                    folder = open_folder(part, folder)
                    stack.callback(os.close, folder)
            except OSError:
                raise NoSuchFile(
                    "the workspace has no folder {parts!r}", parts="/".join(parts)
                ) from None
            yield folder


def safe_name(name: str) -> str:
    """A name that is one part of a path here, whatever it was on the sender's machine."""
    last = name.replace("\\", "/").rpartition("/")[2]
    safe_name = "".join(c if c.isalnum() or c in "._- ()" else "_" for c in last).strip(" .")
    stem, dot, ending = safe_name.rpartition(".")
    if len(safe_name.encode()) > _MAX_NAME:
        safe_name = f"{(stem or safe_name)[:24]}{dot}{ending[:8]}"
    return safe_name or "file"


def _parts(path: str) -> tuple[str, ...]:
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts or "\0" in path:
        raise NoSuchFile("{path!r} is not a path inside the workspace", path=path)
    return parts


def _open_entry(name: str, folder: int, path: str) -> int:
    try:
        fd = os.open(name, _READ_FLAGS, dir_fd=folder)
    except OSError:
        raise NoSuchFile("the workspace has no file {path!r}", path=path) from None
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return fd
    os.close(fd)
    raise NoSuchFile("{path!r} is neither a file nor a folder", path=path)


def _list_files(folder: int, prefix: str) -> list[WorkspaceFile]:
    found: list[WorkspaceFile] = []
    for top, folders, files, at in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        within = "" if top == "." else f"{top[2:]}/"
        if within.count("/") >= _MAX_DEPTH:
            folders.clear()
        for name in files:
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                path = os.fsencode(f"{prefix}{within}{name}").decode("utf-8", "replace")
                found.append(
                    WorkspaceFile(path=path, size=status.st_size, modified_at=status.st_mtime)
                )
        if len(found) >= _MAX_LISTED:
            return found[:_MAX_LISTED]
    return found


@contextlib.contextmanager
def _ensure_folder(name: str, folder: int) -> Iterator[int]:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
        _give_to_owner(name, folder)
    opened = open_folder(name, folder)
    try:
        yield opened
    finally:
        os.close(opened)


def _has_content(name: str, data: bytes, folder: int) -> bool:
    try:
        fd = os.open(name, _READ_FLAGS, dir_fd=folder)
    except OSError:
        return False
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        same_size = stat.S_ISREG(status.st_mode) and status.st_size == len(data)
        return same_size and file.read() == data


def _give_to_owner(name: str, folder: int) -> None:
    """Give the file to the owner of the workspace, which is the user of the session's commands,
    if they have one of their own. (A workspace that does not belong to that user yet is given to
    it as a whole when the first command runs.)"""
    owner = os.fstat(folder)
    if owner.st_uid != os.geteuid():
        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
