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


def fsync_path(path: Path) -> None:
    """What is in a file, or which files are in a folder, outlasts a power cut afterwards."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


PLAN_FILE = "restore.json"
STAGING_PREFIX = ".restore-"  # how the name of a folder begins in which files are staged

StepHook = Callable[[str], None]
"""Told before each thing that is done; the fault tests end the process there."""


def no_hook(_: str) -> None: ...


class FileMove(msgspec.Struct, frozen=True, kw_only=True):
    """What happens at one place of the home; paths are taken from it.

    What is there goes `aside` (""; it can be made anew, and is removed), and what was `staged`
    takes its place (""; nothing does). A move whose staged file is gone was made before.
    """

    place: str
    staged: str = ""
    aside: str = ""


class RestorePlan(msgspec.Struct, frozen=True, kw_only=True):
    room: str  # the folder with what was staged
    moves: tuple[FileMove, ...]


def commit_plan(home: Path, plan: RestorePlan, *, hook: StepHook = no_hook) -> None:
    """From the instant in which the plan is on the disk it will be carried out, by this process
    or by the next that opens the store."""
    hook("write the plan")
    draft = home / f"{PLAN_FILE}.new"
    draft.write_bytes(_encode_plan(plan))
    fsync_path(draft)
    hook("commit to the plan")
    draft.rename(home / PLAN_FILE)
    fsync_path(home)
    finish_restore(home, hook=hook)


def finish_restore(home: Path, *, hook: StepHook = no_hook) -> bool:
    """Carry out the plan that was left here; False: there is none. To be called by the holder of
    the home's lock alone, before the store is opened."""
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
            f"A restore was broken off, and cannot be ended: {path}: {error}. Nothing is lost: "
            f"mend that and start again, or put the files that are named there back by hand"
        ) from error
    return True


def _encode_plan(plan: RestorePlan) -> bytes:
    """By the standard library: names of files are bytes, and those that are no text pass here as
    escapes, which msgspec refuses to write."""
    return json.dumps(msgspec.to_builtins(plan)).encode()


def _decode_plan(body: bytes) -> RestorePlan:
    return msgspec.convert(json.loads(body), type=RestorePlan)


def _remove_staging(home: Path) -> None:
    """What was staged by a process that was killed before its plan."""
    for room in home.glob(f"{STAGING_PREFIX}*"):
        shutil.rmtree(room, ignore_errors=True)


def _apply_move(home: Path, move: FileMove, hook: StepHook) -> None:
    if move.staged and not (home / move.staged).exists():
        return
    if not is_safe_path(home, move.place):
        return  # a command has put a link there since; the file stays out, the rest does not
    folder, name = _open_parent(home, move.place)
    try:
        if _exists(name, folder):
            hook(f"set {move.place} aside")
            if move.aside:
                os.rename(name, _free_name(home / move.aside), src_dir_fd=folder)
            else:
                with suppress(IsADirectoryError):  # none of ours, and in nobody's way
                    os.unlink(name, dir_fd=folder)
        if move.staged:
            hook(f"put {move.place} in its place")
            os.rename(home / move.staged, name, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _free_name(path: Path) -> Path:
    """What was set aside before is never written over."""
    names = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], names) if not os.path.lexists(each))


def is_safe_path(home: Path, place: str) -> bool:
    """Whether every part of the way is a folder or not there yet. Below `workspaces` commands may
    have made a link that leads out of the home."""
    way = [*Path(place).parents][:-1]
    return all((home / part).is_dir() or not os.path.lexists(home / part) for part in way) and (
        not any((home / part).is_symlink() for part in way)
    )


def _open_parent(home: Path, place: str) -> tuple[int, str]:
    """The folder of a place, made where it is missing, and the name in it; no link is followed."""
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
