"""K2: only the store opens or closes the database in the process of the gateway."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.traced_opens import OPENED
from tests.support.fork_server import ForkedProcess, fork_process, run_holdfast

from holdfast.cli.common.connection import api_client_for
from holdfast.core.ids import SessionId
from holdfast.runner.workspace import NoSuchFile, Workspace
from holdfast.server.local.control_client import GatewayRefused
from holdfast.system.lock import read_holder

RunCommand = Callable[..., Any]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text(
        '[model]\nprovider = "demo"\n[runner]\nsandbox = "off"\n[backup]\nevery_hours = 0\n'
    )
    return home


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home.parent), "HOLDFAST_HOME": str(home), "LANG": "C.UTF-8"}


@pytest.fixture
def gateway(home: Path) -> Iterator[ForkedProcess]:
    with (home.parent / "errors").open("ab") as errors:
        process = fork_process(
            "tests.faults.traced_opens", "run", "--port", "0", env=environment(home), stderr=errors
        )
    assert process.stdout is not None
    assert b"listens on" in process.stdout.readline(), (home.parent / "errors").read_text()
    yield process
    process.terminate()
    process.wait(20)
    process.stdout.close()


@pytest.fixture
def run_command(home: Path) -> RunCommand:
    def run_command(*arguments: str) -> Any:
        ran = run_holdfast(*arguments, "--json", env=environment(home))
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return json.loads(ran.stdout)

    return run_command


def locks_of(pid: int, path: Path) -> set[tuple[str, ...]]:
    """The POSIX locks that a process has on a file, as the kernel knows them."""
    inode = str(path.stat().st_ino)
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return {
        tuple(line[1:4] + line[6:])
        for line in lines
        if line[4] == str(pid) and line[5].endswith(f":{inode}")
    }


def test_no_request_makes_the_gateway_open_the_database_outside_the_store(
    gateway: ForkedProcess, home: Path, run_command: RunCommand
) -> None:
    """K2: POSIX drops all locks of a process on a file when it closes any handle of it, whatever
    was opened under whatever name."""
    holder = read_holder(home)
    assert holder is not None
    session_id = run_command("ask", "--session", "one", "hello")["session"]
    run_command("search", "hello")
    database, opened = home / "state.db", home.parent / OPENED
    held, offset = locks_of(holder.pid, database), opened.stat().st_size
    assert held
    second = home / "workspaces" / session_id / "second.db"
    second.parent.parent.mkdir(mode=0o700, exist_ok=True)
    second.parent.mkdir(mode=0o700, exist_ok=True)
    second.hardlink_to(database)

    run_command("backup", "create", "--include-workspaces")
    run_command("doctor", "--skip", "model", "--skip", "sandbox")
    run_command("search", "--rebuild")
    run_command("gateway", "check")
    run_command("sessions", "list")
    run_command("status")
    with pytest.raises(GatewayRefused, match="hard link"):
        api_client_for(home).get(f"/sessions/{session_id}/files?path=second.db", dict)

    assert locks_of(holder.pid, database) == held
    # By this process, and not by those that it starts: a backup is packed by another one.
    names = set(opened.read_bytes()[offset:].splitlines())
    assert names, "it has opened no file at all"
    assert not {name for name in names if os.path.basename(name).startswith(b"state.db")} - {
        name for name in names if b"/.holdfast-backup-" in name
    }


def test_a_hard_link_to_a_file_of_the_home_is_not_served_from_a_workspace(home: Path) -> None:
    """K2: nor can it read secrets; a hard link within the workspace is served."""
    folder = home / "workspaces" / "s_1"
    (folder / "uploads").mkdir(parents=True)
    (home / ".env").write_text("KEY=x\n")
    (folder / "keys").hardlink_to(home / ".env")
    (folder / "uploads" / "keys").hardlink_to(home / ".env")
    (folder / "mine").write_text("mine")
    (folder / "also mine").hardlink_to(folder / "mine")
    workspace = Workspace(home, SessionId("s_1"))
    with pytest.raises(NoSuchFile, match="hard link"):
        workspace.list_or_open("keys")
    fd = workspace.list_or_open("also mine")
    assert isinstance(fd, int)
    os.close(fd)
    assert workspace.save_upload("keys", b"KEY=x\n") == "uploads/keys-2"
