"""The spool: what is known of every call and process, in files that outlive the runner."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from typing import Any

CALLS_KEPT = 200
LARGEST_RECORD = 16 * 1024 * 1024

Record = dict[str, Any]


def file_name(call_id: str) -> str:
    """A name for a call id, which comes from a model's provider and may hold anything."""
    return hashlib.sha256(call_id.encode()).hexdigest()[:32]


def read_regular(path: str, limit: int = LARGEST_RECORD) -> bytes | None:
    """The content of a plain file; None where there is none. A link is not followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return file.read(limit)


def read_record(path: str) -> Record | None:
    """None also where somebody wrote nonsense over it: commands may write to the spool."""
    try:
        record = json.loads(read_regular(path) or b"null")
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read_processes(folder: str) -> list[Record]:
    """The records of background processes, oldest first."""
    names = [name for name in os.listdir(folder) if re.fullmatch(r"p\d{1,9}\.json", name)]
    names.sort(key=lambda name: int(name[1:-5]))
    records = [(name, read_record(os.path.join(folder, name))) for name in names]
    return [record for name, record in records if record and record.get("id") == name[:-5]]


def write_durably(path: str, record: Record) -> None:
    """Whole or not at all, and still there after a power cut."""
    write_whole(path, record, durable=True)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_whole(path: str, record: Record, *, durable: bool = False) -> None:
    temporary = path + ".new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(json.dumps(record).encode())
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)


def head_and_tail(path: str, limit: int) -> tuple[str, bool]:
    """The text of a file in at most `limit` bytes, and whether some was left out."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return "", False
    with os.fdopen(fd, "rb") as file:
        size = os.fstat(fd).st_size
        if size <= limit:
            return file.read(limit).decode(errors="replace"), False
        head = file.read(limit * 2 // 5)
        file.seek(-(limit - len(head)), os.SEEK_END)
        tail = file.read(limit - len(head))
    gap = f"\n[… {size - limit} bytes left out; all of it is in {path} …]\n"
    return head.decode(errors="replace") + gap + tail.decode(errors="replace"), True


def slice_of(path: str, offset: int, limit: int) -> tuple[bytes, int]:
    """At most `limit` bytes from `offset` on, and the size of the whole."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b"", 0
    with os.fdopen(fd, "rb") as file:
        file.seek(offset)
        return file.read(limit), os.fstat(fd).st_size


class Spool:
    """Owns the folder: `calls/`, `processes/` and the terminal's state."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        for name in ("calls", "processes"):
            os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)

    @property
    def terminal(self) -> str:
        return os.path.join(self._folder, "terminal.json")

    def call(self, call_id: str, kind: str = "json") -> str:
        return os.path.join(self._folder, "calls", f"{file_name(call_id)}.{kind}")

    def process(self, process_id: str, kind: str = "json") -> str:
        return os.path.join(self._folder, "processes", f"{process_id}.{kind}")

    def processes(self) -> list[Record]:
        return read_processes(os.path.join(self._folder, "processes"))

    def create_output(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, 0o600)

    def forget_old_calls(self) -> None:
        """The gateway has recorded those long ago; their output is what takes room."""
        folder = os.path.join(self._folder, "calls")
        ended = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
        ended.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
        for entry in ended[:-CALLS_KEPT]:
            if (read_record(entry.path) or {}).get("result") is not None:
                for kind in (".json", ".out"):
                    _remove(entry.path[: -len(".json")] + kind)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
