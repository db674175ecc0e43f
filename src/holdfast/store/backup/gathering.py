"""Gathering what belongs into a backup besides the database, link by link."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE
from holdfast.store.backup.archive import ArchiveSource

DATABASE = "state.db"
MEMORY, WORKSPACES, SECRETS = "memory", "workspaces", "secrets"
_UPLOADS_FOLDER = "uploads"
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_backup_file(name: str) -> bool:
    """Whether a file of that name is one that a backup puts into a home."""
    first = name.split("/", 1)[0]
    return name in (DATABASE, CONFIG_FILE, ENV_FILE) or (
        first in (MEMORY, WORKSPACES, SECRETS) and first != name
    )


def collect_files(home: Path, *, workspaces: bool, secrets: bool) -> Iterator[ArchiveSource]:
    """Files as they are at this moment: the configuration, what memory providers keep, and what
    people sent. With `workspaces` all that agents made, with `secrets` keys and tokens."""
    yield from _owner_file(home, CONFIG_FILE)
    if secrets:
        yield from _owner_file(home, ENV_FILE)
        yield from _files_below(home, SECRETS)
    yield from _files_below(home, MEMORY)
    if workspaces:
        yield from _files_below(home, WORKSPACES)
        return
    for session in sorted(_subfolders(home / WORKSPACES)):
        yield from _files_below(home, f"{WORKSPACES}/{session}/{_UPLOADS_FOLDER}")


def _owner_file(home: Path, name: str) -> Iterator[ArchiveSource]:
    try:
        fd = os.open(home / name, os.O_RDONLY | os.O_CLOEXEC)  # the owner's: a link is meant
    except FileNotFoundError:
        return
    yield ArchiveSource(name, fd)


def _files_below(home: Path, folder: str) -> Iterator[ArchiveSource]:
    """Every plain file; no link is followed, for commands that nobody trusts may have made it. A
    second name of a file that lies in the home itself is left out, too: that may be the keys."""
    if any((home / part).is_symlink() for part in _path_prefixes(folder)):
        return
    top = home / folder
    if not top.is_dir():
        return
    ours = {_inode(each.lstat()) for each in home.iterdir() if not each.is_dir()}
    for place, folders, names, fd in os.fwalk(top, follow_symlinks=False):
        folders.sort()
        for name in sorted(names):
            try:
                if _inode(os.stat(name, dir_fd=fd, follow_symlinks=False)) in ours:
                    continue
                opened = os.open(name, _OPEN_FLAGS, dir_fd=fd)
            except OSError:
                continue  # a link, or gone since
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                os.close(opened)
                continue
            yield ArchiveSource(str(Path(place, name).relative_to(home)), opened)


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _path_prefixes(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def _subfolders(path: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
