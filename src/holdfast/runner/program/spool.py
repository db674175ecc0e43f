"""The spool: records of every call and process, in files that outlive the runner. File names
never change."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from typing import Any, BinaryIO

MAX_CALLS = 200
CALLS_BETWEEN_PRUNING = 50
MAX_RECORD = 16 * 1024 * 1024

SpoolRecord = dict[str, Any]


def hashed_name(call_id: str) -> str:
    """A name for a call id, which comes from a model's provider and may hold anything."""
    return hashlib.sha256(call_id.encode()).hexdigest()[:32]


def open_regular(path: str, folder: int | None = None) -> BinaryIO | None:
    """A plain file, opened; None where there is none. A link is not followed, and a pipe in
    its place does not hold us up: commands may write to the spool."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, dir_fd=folder)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    return None


def read_regular(path: str, folder: int | None = None) -> bytes | None:
    file = open_regular(path, folder)
    if file is None:
        return None
    with file:
        return file.read(MAX_RECORD)


def read_record(path: str, folder: int | None = None) -> SpoolRecord | None:
    """None also if the file is invalid."""
    try:
        record = json.loads(read_regular(path, folder) or b"null")
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def read_processes(folder: int) -> list[SpoolRecord]:
    """The records of background processes in an open folder, oldest first."""
    names = [name for name in os.listdir(folder) if re.fullmatch(r"p\d{1,9}\.json", name)]
    names.sort(key=lambda name: int(name[1:-5]))
    records = [(name, read_record(name, folder)) for name in names]
    return [record for name, record in records if record and record.get("id") == name[:-5]]


def open_folder(path: str, folder: int | None = None) -> int:
    """Raises OSError where it is none, or a link to one."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, dir_fd=folder)


def write_durably(path: str, record: SpoolRecord) -> None:
    """Whole or not at all, and still there after a power cut."""
    write_atomically(path, record, durable=True)
    folder = open_folder(os.path.dirname(path))
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def try_to_write_durably(path: str, record: SpoolRecord) -> None:
    """For what has happened already: a full disk must not keep it from being told."""
    try:
        write_durably(path, record)
    except OSError as error:
        print(f"cannot record {path}: {error}", file=sys.stderr, flush=True)


def write_atomically(path: str, record: SpoolRecord, *, durable: bool = False) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # a command may have cleaned up
    temporary = path + ".new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(json.dumps(record).encode())
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)


def decode_text(data: bytes) -> str:
    """Output of a command as text that can be stored and sent anywhere."""
    return data.decode(errors="replace").replace("\0", "\ufffd")


def head_and_tail(path: str, limit: int) -> tuple[str, bool]:
    """The text of a file in at most `limit` bytes, and whether some was left out."""
    file = open_regular(path)
    if file is None:
        return "", False
    with file:
        size = os.fstat(file.fileno()).st_size
        if size <= limit:
            return decode_text(file.read(limit)), False
        head = file.read(limit * 2 // 5)
        file.seek(-(limit - len(head)), os.SEEK_END)
        tail = file.read(limit - len(head))
    gap = f"\n[… {size - limit} bytes left out; all of it is in {path} …]\n"
    return decode_text(head) + gap + decode_text(tail), True


def read_slice(path: str, offset: int, limit: int) -> tuple[bytes, int]:
    """At most `limit` bytes from `offset` on, and the size of the whole."""
    file = open_regular(path)
    if file is None:
        return b"", 0
    with file:
        file.seek(offset)
        return file.read(limit), os.fstat(file.fileno()).st_size


class Spool:
    """Owns the folder: `calls/`, `processes/`, `shells/` and the terminal's state."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._calls = 0

    @property
    def terminal(self) -> str:
        return os.path.join(self._folder, "terminal.json")

    def shell(self, name: str) -> str:
        return os.path.join(self._folder, "shells", f"{hashed_name(name)}.json")

    def call(self, call_id: str, kind: str = "json") -> str:
        return os.path.join(self._folder, "calls", f"{hashed_name(call_id)}.{kind}")

    def process(self, process_id: str, kind: str = "json") -> str:
        return os.path.join(self._folder, "processes", f"{process_id}.{kind}")

    def processes(self) -> list[SpoolRecord]:
        try:
            folder = open_folder(os.path.join(self._folder, "processes"))
        except OSError:
            return []
        try:
            return read_processes(folder)
        finally:
            os.close(folder)

    def create_output(self, path: str) -> int:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, 0o600)

    def prune_calls(self) -> None:
        """The gateway has recorded those long ago; their output is what takes room."""
        self._calls += 1
        if self._calls % CALLS_BETWEEN_PRUNING:
            return
        folder = os.path.join(self._folder, "calls")
        ended = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
        ended.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
        for entry in ended[:-MAX_CALLS]:
            if (read_record(entry.path) or {}).get("result") is not None:
                for kind in (".json", ".out"):
                    remove_file(entry.path[: -len(".json")] + kind)


def remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
