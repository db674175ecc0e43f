"""Kept files: what a door writes into its folder, each replaced as a whole."""

import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Durable when this returns, and to be read by nobody else: tokens are among it."""
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
        os.fsync(folder)  # else a crash of the machine could take the new name away
    finally:
        os.close(folder)
