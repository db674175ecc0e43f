"""File operations (read, write, edit, search), each in a forked worker so that none can block
the runner."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .command_process import detach_from_runner, open_devnull
from .confinement import limit_this_process
from .event_loop import EventLoop
from .process_tree import signal_all
from .protocol import RunnerRefusal, RunnerRequest
from .quota import DiskQuota
from .shell import ShellTerminals
from .spool import (
    Spool,
    SpoolRecord,
    decode_text,
    read_record,
    try_to_write_durably,
    write_atomically,
)

MAX_TEXT = 48 * 1024  # bytes of text in one answer
MAX_LINE = 2000
MAX_EDITABLE = 20 * 1024 * 1024
MAX_MATCHES = 100
MAX_MATCH_LINE = 300
MAX_SEARCHED_FILE = 10 * 1024 * 1024
SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_SECONDS = 30.0  # for one operation; a regular expression can run forever

Answer = dict[str, Any]


def resolve_path(path: str, cwd: str, home: str) -> str:
    if "\0" in path:
        raise RunnerRefusal("the path holds a NUL byte, which no file's name can")
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.normpath(os.path.join(cwd, path))


def open_text(path: str) -> Any:
    """Open a regular file for reading; anything else is refused with a reason."""
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
    """Replace or create a file, atomically."""
    path, data = os.path.realpath(frame["path"]), str(frame["text"]).encode()
    existed = os.path.exists(path)
    _write_atomically(path, data, frame)
    return {"path": path, "bytes": len(data), "existed": existed}


def _write_atomically(path: str, data: bytes, frame: Mapping[str, Any]) -> None:
    """The new file replaces the name, so that a hard link never leads to another file."""
    folder_path, name = os.path.split(path)
    _check_protected(folder_path, frame)
    temporary = f"{name}.{os.getpid()}.new"
    try:
        os.makedirs(folder_path, exist_ok=True)
        if os.path.isdir(path):
            raise RunnerRefusal(f"{path} is a folder")
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644
        folder = os.open(folder_path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # Where the descriptor leads cannot change any more, whatever a command links meanwhile.
        _check_protected(os.readlink(f"/proc/self/fd/{folder}"), frame)
        try:
            fd = os.open(temporary, _NEW_FILE, 0o600, dir_fd=folder)
            with open(fd, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), mode)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
    except OSError as error:
        raise RunnerRefusal(f"cannot write {path}: {error.strerror}") from None


def _check_protected(folder: str, frame: Mapping[str, Any]) -> None:
    """Without a sandbox, the gateway's home can be reached: no tool writes there, except into the
    session's own workspace."""
    home, workspace = frame.get("protected"), str(frame.get("workspace"))
    if home and _is_within(folder, str(home)) and not _is_within(folder, workspace):
        raise RunnerRefusal(f"{folder} belongs to the gateway, and no tool may write there")


def _is_within(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder


def edit_file(frame: Mapping[str, Any]) -> Answer:
    """Replace `old`, which must occur once unless `all` is set."""
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
        line_numbers = ", ".join(map(str, _line_numbers(text, old)[:10]))
        raise RunnerRefusal(
            f"`old` occurs {found} times (lines {line_numbers}): add context, or set all"
        )
    _write_atomically(path, text.replace(old, new).encode(), frame)
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

    old_lines = old.splitlines()
    lines = text.splitlines()[:20_000]
    anchor = max(old_lines, key=len, default="").strip()
    close = difflib.get_close_matches(anchor, {line.strip() for line in lines}, n=1, cutoff=0.5)
    if not close:
        return "; read the file again"
    at = next(number for number, line in enumerate(lines) if line.strip() == close[0])
    first = max(0, at - 2)
    shown = "\n".join(lines[first : first + min(len(old_lines) + 4, 20)])
    return f"; the nearest is at line {at + 1}:\n{shown}"


def search_files(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Matches as `path:line: text`, or, without a pattern, the paths that fit the glob."""
    root, glob, pattern = str(frame["path"]), str(frame.get("glob") or ""), frame.get("pattern")
    if not os.path.exists(root):
        raise RunnerRefusal(f"no such file or folder: {root}")
    paths = (path for path in _walk_files(root) if _matches_glob(path, root, glob))
    hits = _grep(_compile(str(pattern)), paths, root) if pattern else _relative_names(paths, root)
    lines: list[str] = []
    for hit in hits:
        if len(lines) == MAX_MATCHES:
            return {"lines": lines, "more": True}
        lines.append(hit)
    return {"lines": lines, "more": False}


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise RunnerRefusal(f"the pattern is no regular expression: {error}") from None


def _walk_files(root: str) -> Iterator[str]:
    if os.path.isfile(root):
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(names):
            yield os.path.join(folder, name)


def _matches_glob(path: str, root: str, glob: str) -> bool:
    if not glob:
        return True
    relative = os.path.relpath(path, root)
    plain = glob[3:] if glob.startswith("**/") else glob
    name = relative if "/" in plain else os.path.basename(path)
    return fnmatch.fnmatchcase(name, plain) or fnmatch.fnmatchcase(relative, glob)


def _relative_names(paths: Iterator[str], root: str) -> Iterator[str]:
    return (os.path.relpath(path, root) for path in paths)


def _grep(pattern: re.Pattern[str], paths: Iterator[str], root: str) -> Iterator[str]:
    for path in paths:
        shown = os.path.relpath(path, root) if path != root else os.path.basename(path)
        for number, line in enumerate(_read_lines(path), start=1):
            if pattern.search(line):
                yield f"{shown}:{number}: {line.strip()[:MAX_MATCH_LINE]}"


def _read_lines(path: str) -> list[str]:
    """Empty for a file that is large, binary, not regular or not readable."""
    if not os.path.isfile(path):
        return []
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SEARCHED_FILE + 1)
    except OSError:
        return []
    if len(data) > MAX_SEARCHED_FILE or b"\0" in data[:8192]:
        return []
    return data.decode(errors="replace").splitlines()


FILE_OPERATIONS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "read": read_file,
    "write": write_file,
    "edit": edit_file,
    "search": search_files,
}
RECORDED_OPERATIONS = frozenset({"write", "edit"})


class _FileOperation:
    """A running operation: its request, and the output of its child."""

    def __init__(self, request: RunnerRequest, call_id: str | None, pipe: int) -> None:
        self.request, self.call_id, self.pipe = request, call_id, pipe
        self.output = bytearray()


class FileWorker:
    """Owns the running operations. Those that change a file are recorded by call id."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        spool: Spool,
        terminals: ShellTerminals,
        quota: DiskQuota,
        home: str,
        protected: str | None,
        limits: Mapping[str, Any],
    ) -> None:
        """`protected`: a folder outside of the workspace in which nothing is written."""
        self._loop, self._spool, self._terminals, self._quota = loop, spool, terminals, quota
        self._home, self._limits = home, limits
        self._real_home = os.path.realpath(home)
        self._protected = protected and os.path.realpath(protected)

    def run(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        operation = str(frame["op"])
        folder = self._terminals.find(frame).working_folder()[0]
        path = resolve_path(str(frame["path"]), folder, self._home)
        call_id = str(frame["call"]) if operation in RECORDED_OPERATIONS else None
        if call_id is not None:
            record = read_record(self._spool.call(call_id))
            if record is not None:
                return _respond(request, record.get("result"))
            self._check_space(frame)
            write_atomically(self._spool.call(call_id), {"call_id": call_id, "command": operation})
        work = {"path": path, "protected": self._protected, "workspace": self._real_home}
        self._fork(request, call_id, {**frame, **work})

    def _check_space(self, frame: Mapping[str, Any]) -> None:
        free = self._quota.free()
        if free.files < 1 or free.size < len(str(frame.get("text") or frame.get("new") or "")):
            raise RunnerRefusal("the workspace is full: delete something first")

    def _fork(self, request: RunnerRequest, call_id: str | None, frame: Mapping[str, Any]) -> None:
        pipe, child_end = os.pipe()
        nothing = open_devnull()
        pid = os.fork()
        if not pid:
            _run_child(nothing, child_end, frame, self._limits)
        os.close(child_end)
        os.close(nothing)
        work = _FileOperation(request, call_id, pipe)
        timer = self._loop.after(MAX_SECONDS, lambda: signal_all([pid], 9))
        self._loop.watch_reading(pipe, lambda: self._on_readable(work))
        self._loop.on_exit(pid, lambda _: timer.cancel())

    def _on_readable(self, work: _FileOperation) -> None:
        piece = os.read(work.pipe, 65536)
        work.output += piece
        if piece:
            return
        self._loop.unwatch(work.pipe)
        os.close(work.pipe)
        try:
            result = json.loads(bytes(work.output))
        except ValueError:
            result = {"refused": f"it did not end within {MAX_SECONDS:.0f} s, or ran out of memory"}
        if work.call_id is not None:
            record = {"call_id": work.call_id, "result": result}
            try_to_write_durably(self._spool.call(work.call_id), record)
        _respond(work.request, result)


def _respond(request: RunnerRequest, result: SpoolRecord | None) -> None:
    if result is None:
        request.refuse("this change was started and its outcome is unknown: read the file first")
    elif "refused" in result:
        request.refuse(str(result["refused"]))
    else:
        request.answer(result)


def _run_child(
    nothing: int, output: int, frame: Mapping[str, Any], limits: Mapping[str, Any]
) -> None:
    try:
        detach_from_runner(nothing, output)
        limit_this_process(dict(limits))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # too large a file is refused, not fatal
        try:
            result = FILE_OPERATIONS[str(frame["op"])](frame)
        except RunnerRefusal as refusal:
            result = {"refused": str(refusal)}
        except OSError as error:
            result = {"refused": f"{frame['path']}: {error.strerror}"}
        data = json.dumps(result).encode()
        while data:
            data = data[os.write(1, data) :]
    finally:
        os._exit(0)
