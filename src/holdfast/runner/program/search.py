"""Search: a regular expression over files, or the names of files alone."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .asker import RunnerRefusal

MAX_MATCHES = 100
MAX_MATCH_LINE = 300
MAX_SEARCHED_FILE = 10 * 1024 * 1024
SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})


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
    """None of a file that is large, binary, no plain file, or not ours to read."""
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
