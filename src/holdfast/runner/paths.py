"""Where a session's runner, spool, socket and workspace are on disk."""

import contextlib
import hashlib
import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.core.config.settings import NetworkMode
from holdfast.core.errors import RunnerError
from holdfast.core.ids import CallId, SessionId
from holdfast.runner.program.spool import (
    SpoolRecord,
    hashed_name,
    open_folder,
    read_processes,
    read_record,
)

MAX_SOCKET_PATH = 100  # the kernel takes 107 bytes
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class RunnerLabel(msgspec.Struct, frozen=True, kw_only=True):
    """Whose folder this is; written before the runner starts, out of the sandbox's sight."""

    session_id: SessionId
    sandboxed: bool
    network: str = NetworkMode.HOST  # which it has; older runners have no other
    cgroups: tuple[str, ...] = ()  # of this runner alone


class SessionPaths(msgspec.Struct, frozen=True):
    """The paths of one session."""

    home: Path
    session_id: SessionId

    @property
    def run_folder(self) -> Path:
        digest = hashlib.sha256(self.session_id.encode()).hexdigest()
        return self.home / "runs" / digest[:20]

    @property
    def socket(self) -> Path:
        return self.run_folder / "sock"

    @property
    def label(self) -> Path:
        return self.run_folder / "label.json"

    @property
    def log(self) -> Path:
        return self.run_folder / "log"

    @property
    def spool(self) -> Path:
        return self.run_folder / "spool"

    @property
    def egress(self) -> Path:
        """The folder of the socket by which the sandbox reaches the egress proxy. The sandbox sees
        the folder, so that the next gateway can bind another socket there."""
        return self.run_folder / "egress"

    @property
    def workspace(self) -> Path:
        name = self.session_id if _SAFE_NAME.fullmatch(self.session_id) else self.run_folder.name
        return self.home / "workspaces" / name

    def create(self, *, owner: int | None) -> None:
        """Create what is missing; spool and workspace belong to `owner` afterwards."""
        for folder in (self.run_folder.parent, self.run_folder, self.workspace.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.egress.mkdir(exist_ok=True)
        self.egress.chmod(0o755)  # whatever our umask is: the sandbox has another user
        for folder in (self.spool, self.workspace):
            folder.mkdir(mode=0o700, exist_ok=True)
            if owner is not None and folder.lstat().st_uid != owner:
                _chown_tree(folder, owner)

    def read_label(self) -> RunnerLabel:
        return msgspec.json.decode(self.label.read_bytes(), type=RunnerLabel)

    def remove(self) -> None:
        """All but the workspace."""
        shutil.rmtree(self.run_folder, ignore_errors=True)

    def call_record(self, call_id: CallId) -> SpoolRecord | None:
        """What the spool holds of a call. Its files may be forged: nothing is followed."""
        with _spool_folder(self.spool, "calls") as folder:
            return None if folder is None else read_record(f"{hashed_name(call_id)}.json", folder)

    def process_records(self) -> list[SpoolRecord]:
        with _spool_folder(self.spool, "processes") as folder:
            return [] if folder is None else read_processes(folder)


def labelled_runners(home: Path) -> Iterator[RunnerLabel]:
    """Every session that has a folder under `runs`."""
    for path in sorted((home / "runs").glob("*/label.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            yield msgspec.json.decode(path.read_bytes(), type=RunnerLabel)


@contextlib.contextmanager
def _spool_folder(spool: Path, name: str) -> Iterator[int | None]:
    """A folder of the spool, opened without following a link that a command put there."""
    with contextlib.ExitStack() as stack:
        try:
            outer = open_folder(str(spool))
            stack.callback(os.close, outer)
            inner = open_folder(name, outer)
            stack.callback(os.close, inner)
        except OSError:
            yield None
            return
        yield inner


def _chown_tree(folder: Path, owner: int) -> None:
    os.chown(folder, owner, owner, follow_symlinks=False)
    for _, folders, files, at in os.fwalk(folder):
        for name in (*folders, *files):
            os.chown(name, owner, owner, dir_fd=at, follow_symlinks=False)


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address for `path` that fits into the kernel's 107 bytes, however long the path."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bind_socket(path: Path) -> socket.socket:
    """A bound socket that does not listen yet; what a dead runner left there goes away."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(path) as address:
            sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def connect_socket(paths: SessionPaths) -> socket.socket | None:
    """A connection to the process that listens there; None: there is none. Never waits."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        with socket_address(paths.socket) as address:
            sock.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    except BlockingIOError:
        sock.close()
        raise RunnerError(
            "the runner of session {session_id} is busy and accepts no connection. "
            "Try again in a moment",
            session_id=paths.session_id,
        ) from None
    return sock
