"""A small JSON file that is replaced atomically: after a crash it is the old one or the new one,
and complete."""

import asyncio
import logging
import os
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.core.errors import TransientStoreError

log = logging.getLogger(__name__)

T = TypeVar("T")


def write_atomically(path: Path, content: bytes) -> None:
    """Durable when this returns, and private, since it may contain tokens. Blocks: call it in a
    thread. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # otherwise a power cut could undo the rename
    finally:
        os.close(folder)


async def save(path: Path, value: object) -> None:
    """`write_atomically`, in a thread. Raises `TransientStoreError`."""
    try:
        await asyncio.to_thread(write_atomically, path, msgspec.json.encode(value))
    except OSError as error:
        raise TransientStoreError(
            "Could not write {path}: {error}; check its permissions and the free space",
            path=path,
            error=error,
        ) from error


def load(path: Path, kind: type[T], *, consequence: str) -> T | None:
    """The value in the file. None: there is no file, or it is invalid; then the `consequence` is
    logged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.warning(
            "%s is invalid (%s) and starts empty: %s",
            path,
            error,
            consequence,
            extra={"action": "state_file_invalid"},
        )
        return None
