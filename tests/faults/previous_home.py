"""The home that an earlier version left, and the runner of that version, started again.

`tests/fixtures/make_previous_home.py` has made it and says what is in it.
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
from tests.support.store_file import open_read_only

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "previous_home.tar.gz"
Table = dict[tuple[object, ...], tuple[object, ...]]  # rows, by their primary keys

# How that version started the program of its runners, and with which configuration.
BOOT = "import sys; sys.path.insert(0, sys.argv[2]); from program.main import main; main()"
MB = 1 << 20


class PreviousHome:
    """Owns the unpacked files; reads nothing by the code that is tested."""

    def __init__(self, folder: Path) -> None:
        self.home, self.program = folder / "home", folder
        command = ["tar", "-xzf", str(ARCHIVE), "-C", str(folder), "--no-same-owner", "-p"]
        subprocess.run(command, check=True)
        self._packed: dict[str, Any] = json.loads((folder / "said.json").read_text())

    @property
    def cli_output(self) -> dict[str, Any]:
        """The output of that version's command line, by command."""
        output: dict[str, Any] = self._packed["said"]
        return output

    @property
    def viewer(self) -> str:
        """The token of a read-only viewer."""
        return str(self._packed["viewer"])

    @property
    def db(self) -> Path:
        return self.home / "state.db"

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with open_read_only(self.db) as db:
            return db.execute(sql, values).fetchall()

    def tables(self) -> dict[str, Table]:
        """All rows of the database, without SQLite's own tables."""
        with open_read_only(self.db) as db:
            names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            return {
                str(name): _table(db, str(name))
                for (name,) in names
                if not str(name).startswith("sqlite_")
            }

    def session(self, chat: str) -> str:
        """The current session of a chat."""
        [(found,)] = self.rows("SELECT session_id FROM routes WHERE key LIKE ?", f"%:{chat}%")
        return str(found)

    def workspace(self, chat: str) -> Path:
        return self.home / "workspaces" / self.session(chat)

    def transcript(self, chat: str) -> list[dict[str, Any]]:
        sql = "SELECT body FROM messages WHERE session_id = ? ORDER BY seq"
        return [json.loads(body) for (body,) in self.rows(sql, self.session(chat))]

    def results(self, chat: str) -> list[dict[str, Any]]:
        """The tool results of a chat's session."""
        return [message for message in self.transcript(chat) if message["type"] == "tool"]


# Of this version: rows from before have nothing there, or what follows from the others.
NEW_COLUMNS = ("inbox_ids", "listed", "active_hour", "root_id", "covered_seq")


def _table(db: apsw.Cursor, name: str) -> Table:
    found = db.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
    columns = [(str(column), key) for column, key in found if column not in NEW_COLUMNS]
    keys = [index for index, (_, key) in enumerate(columns) if key]
    rows = db.execute(f"SELECT {', '.join(column for column, _ in columns)} FROM {name}").fetchall()
    return {tuple(row[index] for index in keys): row for row in rows}


class PreviousRunner:
    """Owns a runner of that version, which does what it did when its gateway was killed.

    A process cannot be packed, so the program is started again. It gets the same calls with the
    same ids over the wire protocol, and its row in the store is set to the new process.
    """

    def __init__(self, previous: PreviousHome, chat: str) -> None:
        self._previous, self._session = previous, previous.session(chat)
        self._workspace = previous.workspace(chat)
        self._run = _folder_of(previous.home, self._session)
        spool = self._run / "spool"
        records = [json.loads(path.read_text()) for path in (spool / "calls").glob("*.json")]
        shutil.rmtree(spool)
        spool.mkdir(mode=0o700)
        (self._workspace / "effects.log").unlink()
        self._process = self._start(spool)
        try:
            self._repeat_calls(records)
            self._register()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def start_time(self) -> int:
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[19])

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """End it with all its child processes."""
        if self.alive:
            self._process.send_signal(signal.SIGSTOP)
            for pid in _descendants(self.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()

    def _start(self, spool: Path) -> subprocess.Popen[bytes]:
        ready_read, ready = os.pipe()
        config = os.memfd_create("config")
        with socket.socket(socket.AF_UNIX) as listener, self._address() as address:
            listener.bind(address)
            config_values = self._config(spool, listener.fileno(), ready)
            os.write(config, json.dumps(config_values).encode())
            os.lseek(config, 0, os.SEEK_SET)
            command = [sys.executable, "-I", "-S", "-c", BOOT]
            process = subprocess.Popen(
                [*command, str(config), str(self._previous.program)],
                env={"PATH": os.environ["PATH"]},
                cwd="/",
                pass_fds=(listener.fileno(), ready, config),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        os.close(ready)
        os.close(config)
        assert os.read(ready_read, 1), "the runner died as it started"
        os.close(ready_read)
        return process

    def _config(self, spool: Path, listener: int, ready: int) -> dict[str, Any]:
        workspace = str(self._workspace)
        return {
            "workspace": workspace,
            "spool": str(spool),
            "listen_fd": listener,
            "ready_fd": ready,
            "uid": None,
            "sandboxed": False,
            "environment": {"PATH": os.environ["PATH"], "HOME": workspace, "LANG": "C.UTF-8"},
            "output_bytes": 32 * 1024,
            "idle_timeout": 3600,
            "workspace_bytes": 10240 * MB,
            "limits": {
                "processes": None,
                "memory": 4096 * MB,
                "file": 2048 * MB,
                "core": 0,
                "descriptors": 4096,
            },
        }

    def _repeat_calls(self, records: list[dict[str, Any]]) -> None:
        """A call that has a result had started a process; one that has none was running."""
        with socket.socket(socket.AF_UNIX) as link, self._address() as address:
            link.connect(address)
            for number, record in enumerate(sorted(records, key=lambda one: "result" not in one)):
                asked = {"id": number, "call": record["call_id"], "command": record["command"]}
                if "result" in record:
                    _send(link, {**asked, "op": "start", "stream": False})
                    assert _receive(link)["result"]["id"] == record["result"]
                else:
                    _send(link, {**asked, "op": "run", "limit": 600.0, "stream": True})
            began = self._workspace / "effects.log"
            ends = time.monotonic() + 30
            while not (began.exists() and began.read_text()):
                assert time.monotonic() < ends, "the command did not begin"
                time.sleep(0.01)

    def _register(self) -> None:
        """Update the existing row, and leave the WAL without a checkpoint."""
        db = apsw.Connection(str(self._previous.db))
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.execute(
            "UPDATE runners SET pid = ?, outer_pid = ?, start_time = ? WHERE session_id = ?",
            (self.pid, self.pid, self.start_time, self._session),
        )
        assert db.changes() == 1
        db.close()

    @contextmanager
    def _address(self) -> Iterator[str]:
        """A path of its socket that is short enough."""
        folder = os.open(self._run, os.O_PATH)
        try:
            yield f"/proc/self/fd/{folder}/sock"
        finally:
            os.close(folder)


def _descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [each for child in children for each in (*_descendants(int(child)), int(child))]


def _folder_of(home: Path, session: str) -> Path:
    labels = (home / "runs").glob("*/label.json")
    [found] = [path for path in labels if json.loads(path.read_text())["session_id"] == session]
    return found.parent


def _send(link: socket.socket, frame: dict[str, Any]) -> None:
    body = json.dumps(frame).encode()
    link.sendall(struct.pack(">I", len(body)) + body)


def _receive(link: socket.socket) -> Any:
    with link.makefile("rb") as file:
        (size,) = struct.unpack(">I", file.read(4))
        return json.loads(file.read(size))
