"""`holdfast` in a process that counts what it does: SQL statements, transactions, function calls,
imported modules, and objects that only the garbage collector could free.

`python counting_gateway.py FOLDER run …`: each SIGRTMIN+1 writes the counts since the one before to
FOLDER/1.json, FOLDER/2.json and so on. Function calls are counted from the first signal on. Nothing
is imported here that the gateway does not import itself.
"""

import gc
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

import holdfast
from holdfast.cli.entry import main as run_holdfast
from holdfast.store.sqlite import writer

COUNT_SIGNAL = signal.SIGRTMIN + 1
# Not the thread of the search index, which works some seconds later, for several turns at once.
STORE_THREADS = frozenset({"store-writer", "store-reader"})
# The body of a comprehension is a function up to Python 3.11 only.
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})


class Counters:
    """Owns the counts since the last report. Written by several threads, read while all wait."""

    def __init__(self, folder: Path, package: str) -> None:
        self._folder = folder
        self._package = package
        self._reports = 0
        self._statements: list[str] = []
        self._calls: dict[object, int] = {}

    def watch_connection(self, db: apsw.Connection) -> None:
        db.trace_v2(apsw.SQLITE_TRACE_STMT, self._on_statement)

    def _on_statement(self, event: dict[str, object]) -> None:
        if threading.current_thread().name in STORE_THREADS and not event["trigger"]:
            self._statements.append(" ".join(str(event["sql"]).split()))

    def profile(self, frame: object, event: str, argument: object) -> None:
        """For `sys.setprofile`: one call per call, and per resumption of a coroutine."""
        if event == "call":
            code = frame.f_code  # type: ignore[attr-defined]
            self._calls[code] = self._calls.get(code, 0) + 1

    def profile_store_thread(self, frame: object, event: str, argument: object) -> None:
        """The first event of each thread: which profiler it gets from now on."""
        is_counted = threading.current_thread().name in STORE_THREADS
        sys.setprofile(self.profile if is_counted else None)

    def report(self, *_: object) -> None:
        """Runs in the main thread, whose calls are counted from the first report on."""
        sys.setprofile(None)
        garbage = gc.collect()
        import json  # noqa: PLC0415 - the gateway has imported it by now

        calls = {
            f"{code.co_filename[len(self._package) + 1 :]}:{code.co_qualname}": count  # type: ignore[attr-defined]
            for code, count in self._calls.items()
            if code.co_filename.startswith(self._package)  # type: ignore[attr-defined]
            and code.co_name not in COMPREHENSIONS  # type: ignore[attr-defined]
        }
        found = {
            "statements": self._statements,
            "calls": calls,
            "modules": list(sys.modules),
            "garbage": garbage,
        }
        self._reports += 1
        unfinished = self._folder / "unfinished"
        unfinished.write_text(json.dumps(found))
        unfinished.rename(self._folder / f"{self._reports}.json")
        self._statements, self._calls = [], {}
        sys.setprofile(self.profile)


def main() -> None:
    folder, *arguments = sys.argv[1:]
    counters = Counters(Path(folder), str(Path(holdfast.__file__).parent))
    hooks: list[Callable[[apsw.Connection], None]] = apsw.connection_hooks
    hooks.append(counters.watch_connection)
    signal.signal(COUNT_SIGNAL, counters.report)
    threading.setprofile(counters.profile_store_thread)
    # Which writes share a transaction depends on the load: here each has one of its own.
    assert writer._MAX_BATCH
    writer._MAX_BATCH = 0
    sys.argv = ["holdfast", *arguments]
    run_holdfast()


if __name__ == "__main__":
    main()
