"""`holdfast`, in a process that writes down every file it opens by any means but SQLite's."""

import os
import sys
from pathlib import Path
from typing import Any

from holdfast.cli.entry import main as run

OPENED = "opened"  # beside the home


def main() -> None:
    home = Path(os.environ["HOLDFAST_HOME"])
    log_fd = os.open(home.parent / OPENED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "sqlite3.connect") and not isinstance(arguments[0], int):
            os.write(log_fd, os.fsencode(arguments[0]) + b"\n")

    sys.addaudithook(watch)
    run()
