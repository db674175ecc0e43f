"""Search: a regular expression over files, or the names of files alone."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .asker import Refusal

MOST_MATCHES = 100
LONGEST_LINE = 300
LARGEST_FILE = 10 * 1024 * 1024
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})


def search(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Matches as `path:line: text`, or, without a pattern, the paths that fit the glob."""
    root, glob, pattern = str(frame["path"]), str(frame.get("glob") or ""), frame.get("pattern")
    if not os.path.exists(root):
        raise Refusal(f"no such file or folder: {root}")
    paths = (path for path in _files(root) if _fits(path, root, glob))
    hits = _grep(_compile(str(pattern)), paths, root) if pattern else _names(paths, root)
    lines: list[str] = []
    for hit in hits:
        if len(lines) == MOST_MATCHES:
            return {"lines": lines, "more": True}
        lines.append(hit)
    return {"lines": lines, "more": False}


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Refusal(f"the pattern is no regular expression: {error}") from None


def _files(root: str) -> Iterator[str]:
    if os.path.isfile(root):
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            yield os.path.join(folder, name)


def _fits(path: str, root: str, glob: str) -> bool:
    if not glob:
        return True
    relative = os.path.relpath(path, root)
    plain = glob[3:] if glob.startswith("**/") else glob
    name = relative if "/" in plain else os.path.basename(path)
    return fnmatch.fnmatchcase(name, plain) or fnmatch.fnmatchcase(relative, glob)


def _names(paths: Iterator[str], root: str) -> Iterator[str]:
    return (os.path.relpath(path, root) for path in paths)


def _grep(pattern: re.Pattern[str], paths: Iterator[str], root: str) -> Iterator[str]:
    for path in paths:
        shown = os.path.relpath(path, root) if path != root else os.path.basename(path)
        for number, line in enumerate(_lines(path), start=1):
            if pattern.search(line):
                yield f"{shown}:{number}: {line.strip()[:LONGEST_LINE]}"


def _lines(path: str) -> list[str]:
    """None of a file that is large, binary, no plain file, or not ours to read."""
    if not os.path.isfile(path):
        return []
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError:
        return []
    if len(data) > LARGEST_FILE or b"\0" in data[:8192]:
        return []
    return data.decode(errors="replace").splitlines()
