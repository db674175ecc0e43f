"""Syncing: what was written to a file or a folder is on the disk."""

import os
from pathlib import Path


def fsync_path(path: Path) -> None:
    """What is in a file, or which files are in a folder, outlasts a power cut afterwards."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
