"""The home that an earlier version left, and the runner of that version, alive again.

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

PACKED = Path(__file__).parents[1] / "fixtures" / "previous_home.tar.gz"
Table = dict[tuple[object, ...], tuple[object, ...]]  # rows, by their primary keys

# How that version started the program of its runners, and what it told it.
BOOT = "import sys; sys.path.insert(0, sys.argv[2]); from program.main import main; main()"
MB = 1 << 20


class PreviousHome:
    """Owns the unpacked files; reads nothing by the code that is tested."""

    def __init__(self, place: Path) -> None:
        self.home, self.program = place / "home", place
        command = ["tar", "-xzf", str(PACKED), "-C", str(place), "--no-same-owner", "-p"]
        subprocess.run(command, check=True)
        self._told: dict[str, Any] = json.loads((place / "said.json").read_text())

    @property
    def said(self) -> dict[str, Any]:
        """What the command line of that version said, by what it was asked."""
        said: dict[str, Any] = self._told["said"]
        return said

    @property
    def viewer(self) -> str:
        """The token of somebody who may look."""
        return str(self._told["viewer"])

    @property
    def db(self) -> Path:
        return self.home / "state.db"

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with open_read_only(self.db) as db:
            return db.execute(sql, values).fetchall()

    def tables(self) -> dict[str, Table]:
        """All that is in the database, but for what counts and measures."""
        with open_read_only(self.db) as db:
            names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            return {
                str(name): _table(db, str(name))
                for (name,) in names
                if not str(name).startswith("sqlite_")
            }

    def session(self, chat: str) -> str:
        """The conversation that a chat has."""
        [(found,)] = self.rows("SELECT session_id FROM routes WHERE key LIKE ?", f"%:{chat}%")
        return str(found)

    def workspace(self, chat: str) -> Path:
        return self.home / "workspaces" / self.session(chat)

    def transcript(self, chat: str) -> list[dict[str, Any]]:
        sql = "SELECT body FROM messages WHERE session_id = ? ORDER BY seq"
        return [json.loads(body) for (body,) in self.rows(sql, self.session(chat))]

    def results(self, chat: str) -> list[dict[str, Any]]:
        """What the tools of a conversation gave back."""
        return [message for message in self.transcript(chat) if message["type"] == "tool"]


def _table(db: apsw.Cursor, name: str) -> Table:
    columns = db.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
    keys = [place for place, (_, key) in enumerate(columns) if key]
    rows = db.execute(f"SELECT * FROM {name}").fetchall()
    return {tuple(row[place] for place in keys): row for row in rows}


class PreviousRunner:
    """Owns a runner of that version, which does what it did when its gateway was killed.

    Processes cannot be packed. So its program is started again, and is asked for the same calls
    by the same ids, in the words of the wire between the two, and left alone as a killed gateway
    leaves it; its row is made to tell of this process.
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
        self._process = self._started(spool)
        try:
            self._ask_again(records)
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
        """With all that it runs, whoever has failed to end it before."""
        if self.alive:
            self._process.send_signal(signal.SIGSTOP)
            for pid in _below(self.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()

    def _started(self, spool: Path) -> subprocess.Popen[bytes]:
        heard, ready = os.pipe()
        config = os.memfd_create("config")
        with socket.socket(socket.AF_UNIX) as listener, self._address() as address:
            listener.bind(address)
            facts = self._config(spool, listener.fileno(), ready)
            os.write(config, json.dumps(facts).encode())
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
        assert os.read(heard, 1), "the runner died as it started"
        os.close(heard)
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

    def _ask_again(self, records: list[dict[str, Any]]) -> None:
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
        """In the row that there is. What stands in the log of the database stays there."""
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
        """Of its socket, in few enough bytes."""
        folder = os.open(self._run, os.O_PATH)
        try:
            yield f"/proc/self/fd/{folder}/sock"
        finally:
            os.close(folder)


def _below(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [each for child in children for each in (*_below(int(child)), int(child))]


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
