"""The plan of file moves of a restore: written first, then carried out, so that a crash half-way
cannot leave a mix.

Every start completes a plan that it finds.
"""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

import msgspec

from holdfast.core.errors import StoreUnusable

PLAN_FILE = "restore.json"
STAGING_PREFIX = ".restore-"  # of the names of folders with staged files

StepHook = Callable[[str], None]
"""Called before each step; the fault tests kill the process there."""


def no_hook(_: str) -> None: ...


class FileMove(msgspec.Struct, frozen=True, kw_only=True):
    """One replacement; all paths are relative to the home.

    The file at `place` moves to `aside` ("": it is deleted, since it can be rebuilt), and the file
    at `staged` takes its place ("": none does). A move whose staged file is gone is done already.
    The field names are those of the stored plan.
    """

    place: str
    staged: str = ""
    aside: str = ""


class RestorePlan(msgspec.Struct, frozen=True, kw_only=True):
    room: str  # the folder with the staged files
    moves: tuple[FileMove, ...]


def fsync_path(path: Path) -> None:
    """Make the contents of a file, or the entries of a folder, survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def commit_plan(home: Path, plan: RestorePlan, *, hook: StepHook = no_hook) -> None:
    """Write the plan and carry it out. Once it is on disk it will be carried out, by this process
    or by the next one that opens the store."""
    hook("write the plan")
    draft = home / f"{PLAN_FILE}.new"
    draft.write_bytes(_encode_plan(plan))
    fsync_path(draft)
    hook("commit to the plan")
    draft.rename(home / PLAN_FILE)
    fsync_path(home)
    finish_restore(home, hook=hook)


def finish_restore(home: Path, *, hook: StepHook = no_hook) -> bool:
    """Carry out a plan that is on disk; False: there is none. The caller holds the lock of the home
    and has not opened the store yet."""
    path = home / PLAN_FILE
    if not path.exists():
        _remove_staging(home)
        return False
    try:
        plan = _decode_plan(path.read_bytes())
        for move in plan.moves:
            _apply_move(home, move, hook)
        fsync_path(home)
        hook("forget the plan")
        path.unlink()
        fsync_path(home)
        shutil.rmtree(home / plan.room, ignore_errors=True)
    except (OSError, ValueError) as error:
        raise StoreUnusable(
            "An interrupted restore cannot be finished: {path}: {error}. Nothing is lost."
            " Fix the cause and start again, or move the files that it names back "
            "yourself",
            path=path,
            error=error,
        ) from error
    return True


def _encode_plan(plan: RestorePlan) -> bytes:
    """Encodes with the standard library: file names that are not valid UTF-8 become escapes, which
    msgspec refuses to write."""
    return json.dumps(msgspec.to_builtins(plan)).encode()


def _decode_plan(body: bytes) -> RestorePlan:
    return msgspec.convert(json.loads(body), type=RestorePlan)


def _remove_staging(home: Path) -> None:
    """Remove files staged by a process that was killed before it had written its plan."""
    for staging in home.glob(f"{STAGING_PREFIX}*"):
        shutil.rmtree(staging, ignore_errors=True)


def _apply_move(home: Path, move: FileMove, hook: StepHook) -> None:
    if move.staged and not (home / move.staged).exists():
        return
    if not is_safe_path(home, move.place):
        return  # a command has put a link there since; this file is skipped, the others are not
    folder, name = _open_parent(home, move.place)
    try:
        if _exists(name, folder):
            hook(f"set {move.place} aside")
            if move.aside:
                os.rename(name, _free_name(home / move.aside), src_dir_fd=folder)
            else:
                with suppress(IsADirectoryError):  # not ours, and it does no harm
                    os.unlink(name, dir_fd=folder)
        if move.staged:
            hook(f"put {move.place} in its place")
            os.rename(home / move.staged, name, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _free_name(path: Path) -> Path:
    """A name that no file has: a file that was moved aside before is never overwritten."""
    names = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], names) if not os.path.lexists(each))


def is_safe_path(home: Path, place: str) -> bool:
    """Whether every parent is a real folder or does not exist yet. In workspaces, commands may have
    made a link that leads out of the home."""
    parents = [*Path(place).parents][:-1]
    return all((home / part).is_dir() or not os.path.lexists(home / part) for part in parents) and (
        not any((home / part).is_symlink() for part in parents)
    )


def _open_parent(home: Path, place: str) -> tuple[int, str]:
    """The parent folder, created where it is missing, and the name in it; follows no links."""
    *parts, name = place.split("/")
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        below = _enter_folder(part, fd)
        os.close(fd)
        fd = below
    return fd, name


def _enter_folder(part: str, fd: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=fd)
    return os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
