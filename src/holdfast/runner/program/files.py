"""Files: reading, writing and editing text, done in a forked worker of the runner."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from .asker import RunnerRefusal
from .spool import decode_text

MAX_TEXT = 48 * 1024  # bytes of text in one answer
MAX_LINE = 2000
MAX_EDITABLE = 20 * 1024 * 1024

Answer = dict[str, Any]


def resolve_path(path: str, cwd: str, home: str) -> str:
    if "\0" in path:
        raise RunnerRefusal("the path holds a NUL byte, which no file's name can")
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.normpath(os.path.join(cwd, path))


def open_text(path: str) -> Any:
    """A plain file opened for reading; anything else is refused with a reason."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RunnerRefusal(f"no such file: {path}{_sibling_names(path)}") from None
    except OSError as error:
        raise RunnerRefusal(f"cannot read {path}: {error.strerror}") from None
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        names = sorted(os.listdir(path))
        raise RunnerRefusal(f"{path} is a folder of {len(names)}: {', '.join(names[:50])}")
    if not stat.S_ISREG(mode):
        raise RunnerRefusal(f"{path} is no plain file")
    file = os.fdopen(fd, "rb")
    if b"\0" in file.read(8192):
        raise RunnerRefusal(
            f"{path} is binary ({os.fstat(fd).st_size} bytes); look at it by a command"
        )
    file.seek(0)
    return file


def _sibling_names(path: str) -> str:
    try:
        names = sorted(os.listdir(os.path.dirname(path)))
    except OSError:
        return "; its folder does not exist either"
    return f"; beside it are: {', '.join(names[:30])}" if names else "; its folder is empty"


def read_file(frame: Mapping[str, Any]) -> Answer:
    """Lines `offset` (from 1) to `offset + limit`, as many as fit into one answer."""
    first, most = max(1, int(frame["offset"])), int(frame["limit"])
    lines: list[str] = []
    size = total = 0
    with open_text(frame["path"]) as file:
        for raw in file:
            total += 1
            if total < first or len(lines) >= most or size > MAX_TEXT:
                continue
            line = decode_text(raw).rstrip("\r\n")
            if len(line) > MAX_LINE:
                line = f"{line[:MAX_LINE]} [… {len(line) - MAX_LINE} characters cut]"
            lines.append(line)
            size += len(line) + 1
    if first > total and total:
        raise RunnerRefusal(f"{frame['path']} has only {total} lines")
    return {"text": "\n".join(lines), "first": first, "shown": len(lines), "total": total}


def write_file(frame: Mapping[str, Any]) -> Answer:
    """Replace or create; whole or not at all."""
    path, data = os.path.realpath(frame["path"]), str(frame["text"]).encode()
    existed = os.path.exists(path)
    _write_atomically(path, data)
    return {"path": path, "bytes": len(data), "existed": existed}


def _write_atomically(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.isdir(path):
            raise RunnerRefusal(f"{path} is a folder")
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644
        with open(temporary, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise RunnerRefusal(f"cannot write {path}: {error.strerror}") from None


def edit_file(frame: Mapping[str, Any]) -> Answer:
    """Replace `old`, which must occur once unless `all` is said."""
    path, old, new = os.path.realpath(frame["path"]), str(frame["old"]), str(frame["new"])
    if not old:
        raise RunnerRefusal("`old` is empty; to make a file use write")
    if old == new:
        raise RunnerRefusal("`old` and `new` are the same")
    text = _read_editable(path)
    if "\r\n" in text and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    found = text.count(old)
    if not found:
        raise RunnerRefusal(f"`old` does not occur in {path}{_nearest_match(text, old)}")
    if found > 1 and not frame.get("all"):
        places = ", ".join(map(str, _line_numbers(text, old)[:10]))
        raise RunnerRefusal(f"`old` occurs {found} times (lines {places}): add context, or set all")
    _write_atomically(path, text.replace(old, new).encode())
    return {"path": path, "replaced": found, "lines": _line_numbers(text, old)[:20]}


def _read_editable(path: str) -> str:
    with open_text(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_EDITABLE:
            raise RunnerRefusal(f"{path} is too large to edit; use a command")
        try:
            return str(file.read().decode())
        except UnicodeDecodeError:
            raise RunnerRefusal(f"{path} is not UTF-8; use a command") from None


def _line_numbers(text: str, part: str) -> list[int]:
    places, at = [], text.find(part)
    while at >= 0:
        places.append(text.count("\n", 0, at) + 1)
        at = text.find(part, at + len(part))
    return places


def _nearest_match(text: str, old: str) -> str:
    import difflib  # noqa: PLC0415 - only an edit that failed needs it

    wanted = old.splitlines()
    lines = text.splitlines()[:20_000]
    anchor = max(wanted, key=len, default="").strip()
    close = difflib.get_close_matches(anchor, {line.strip() for line in lines}, n=1, cutoff=0.5)
    if not close:
        return "; read the file again"
    at = next(number for number, line in enumerate(lines) if line.strip() == close[0])
    first = max(0, at - 2)
    shown = "\n".join(lines[first : first + min(len(wanted) + 4, 20)])
    return f"; the nearest is at line {at + 1}:\n{shown}"
