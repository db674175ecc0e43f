"""`holdfast backup` and `holdfast restore`: a home is copied, verified and restored."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.faults.backup_homes import make_backup, make_home
from tests.support.command_line import Cli, CliGateway, Terminal

from holdfast.server.local.control_client import read_status
from holdfast.system import exit_codes
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path)


def create_backup(cli: Cli, *args: str, **environ: str) -> dict[str, Any]:
    run = cli("backup", "create", "--json", *args, **environ)
    assert run.returncode == exit_codes.OK, run.stderr
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def last_backup(gateway: CliGateway, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Wait until the last backup in the status fulfils a condition: a busy gateway reports late."""
    deadline = time.monotonic() + 40
    while True:
        last: dict[str, Any] = read_status(Paths(gateway.home), timeout=30)["snapshot"][
            "last_backup"
        ]
        if condition(last):
            return last
        assert time.monotonic() < deadline, last
        time.sleep(0.05)


def test_a_home_without_a_gateway_is_backed_up_under_its_lock(cli: Cli, home: Path) -> None:
    """K1: with no gateway running the CLI takes the lock itself. K4: and verifies by opening."""
    with HomeLock(home):
        refused = cli("backup", "create")
        assert refused.returncode == exit_codes.HOME_IN_USE
    (home / "holdfast.toml").write_text("[modle]\n")
    backup = create_backup(cli)  # a broken configuration is in it all the same
    assert backup["counts"]["messages"] == 6
    assert Path(backup["path"]).parent == home / "backups"
    elsewhere = '[model]\napi_key = "env:NOT_IN_THIS_SHELL"\n[backup]\ndir = "../elsewhere"\n'
    (home / "holdfast.toml").write_text(elsewhere)
    assert Path(create_backup(cli)["path"]).parent.resolve() == home.parent / "elsewhere"


def test_a_live_gateway_is_copied_while_it_works(gateway: CliGateway, cli: Cli) -> None:
    """K4: through the gateway, which goes on; and `restore` refuses to overwrite a live one."""
    cli("ask", "--session", "kept", "[text before]")
    backup = create_backup(cli)
    assert backup["counts"]["sessions"] == 1
    made = Path(backup["path"]).name
    last_backup(
        gateway, lambda last: last["name"] == made
    )  # by another program, and known all the same
    cli("ask", "--session", "later", "[text after]")
    refused = cli("restore", "latest", "--yes")
    assert refused.returncode == exit_codes.HOME_IN_USE and "is in use" in refused.stderr
    assert "`holdfast gateway stop`" in refused.stderr and "--replace" not in refused.stderr
    assert not [*gateway.home.glob("*before-restore*"), *gateway.home.glob(".restore-*")]
    gateway.kill()
    restored = cli("restore", "latest", "--yes")
    assert restored.returncode == exit_codes.OK, restored.stderr
    assert "1 conversation" in restored.stdout and "Moved aside:" in restored.stdout
    gateway.start()
    shown = cli("sessions", "list", "--json")
    assert len(json.loads(shown.stdout)["sessions"]) == 1


def test_a_gateway_backs_itself_up(gateway: CliGateway) -> None:
    """K4: by itself, when it is time; status says which one is the last."""
    gateway.stop()
    config = (gateway.home / "holdfast.toml").read_text()
    gateway.configure(f"{config}[backup]\nevery_hours = 0.0001\nkeep = 1000\n")
    gateway.start()
    last = last_backup(gateway, lambda last: last["name"] and last["next_at"] is not None)
    assert (gateway.home / "backups" / last["name"]).exists() and not last["problem"]


def test_a_backup_that_does_not_fit_with_its_workspaces_is_refused(cli: Cli, home: Path) -> None:
    """Before anything is written: a full disk affects every process."""
    large = home / "workspaces/s_1/made/large.bin"
    large.touch()
    os.truncate(large, shutil.disk_usage(home).free + 1_000_000)  # a hole: it takes no space
    refused = cli("backup", "create", "--include-workspaces")
    assert refused.returncode == exit_codes.FAILED
    assert "MB of free space" in refused.stderr and not [*(home / "backups").glob("*.gz")]
    create_backup(cli)


def test_the_progress_bars_of_a_backup_are_shown_at_a_terminal(
    home: Path, open_terminal: Callable[..., Terminal]
) -> None:
    (home / "workspaces/s_1/made/large.bin").write_bytes(os.urandom(8_000_000))
    terminal = open_terminal(
        "backup", "create", "--include-workspaces", HOLDFAST_HOME=str(home), PATH=os.environ["PATH"]
    )
    assert terminal.wait_for_exit() == 0
    assert "Copying" in terminal.raw and "Packing, verifying" in terminal.raw
    assert terminal.raw.rpartition("Packing, verifying")[2].count("100%") == 1


def test_backups_are_listed_verified_and_pruned(cli: Cli, home: Path) -> None:
    for _ in range(3):
        make_backup(home)
    (home / "backups" / "holdfast-0.tar.gz").write_bytes(b"none at all")
    listed = json.loads(cli("backup", "list", "--json").stdout)["backups"]
    assert [bool(one.get("problem")) for one in listed].count(True) == 1 and len(listed) == 4
    assert "1 conversation, 6 messages" in cli("backup", "list").stdout
    verified = cli("backup", "verify", "--all")
    assert verified.returncode == exit_codes.FAILED
    assert (verified.stdout.count("good"), verified.stdout.count("bad")) == (3, 1)
    assert cli("backup", "verify").returncode == exit_codes.OK
    assert len(json.loads(cli("backup", "prune", "--keep", "1", "--json").stdout)["removed"]) == 2


def test_a_lost_home_is_restored_from_its_backup(cli: Cli, home: Path, tmp_path: Path) -> None:
    backup = create_backup(cli, "--to", str(tmp_path / "elsewhere.tar.gz"))
    again = {"HOLDFAST_HOME": str(tmp_path / "fresh")}
    restored = cli("restore", backup["path"], "--yes", **again)
    assert restored.returncode == exit_codes.OK, restored.stderr
    assert "The backup contains no keys" in restored.stdout
    assert "answer 2" in cli("sessions", "show", "s_c0", **again).stdout
    assert (tmp_path / "fresh" / "holdfast.toml").exists()
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o700
    assert restored.stdout.endswith("Start it:  holdfast run\n")
    other = cli("restore", "--home", str(tmp_path / "other"), backup["path"], "--yes")
    assert other.stdout.endswith(f"Start it:  holdfast run --home {tmp_path / 'other'}\n")


def test_a_person_is_asked_before_a_home_is_changed(cli: Cli, home: Path) -> None:
    make_backup(home)
    content = (home / "state.db").read_bytes()
    refused = cli("restore", "latest", stdin="n\n")
    assert refused.returncode == exit_codes.FAILED and "Restore holdfast-" in refused.stderr
    assert "--yes" in refused.stderr  # for calls without a terminal
    assert (home / "state.db").read_bytes() == content


def test_a_backup_that_cannot_be_made_says_what_to_do(cli: Cli, home: Path, tmp_path: Path) -> None:
    assert "backup create" in cli("restore", "latest", "--yes").stderr
    assert cli("restore").returncode == exit_codes.USAGE
    file = tmp_path / "taken.tar.gz"
    file.write_text("mine")
    assert "already exists" in cli("backup", "create", "--to", str(file)).stderr
    assert file.read_text() == "mine"
    zipped = cli("backup", "create", "--to", str(tmp_path / "mine.zip"))
    assert zipped.returncode == exit_codes.FAILED and "FILE.tar.gz" in zipped.stderr
    assert not (tmp_path / "mine.zip").exists()
    empty = cli("backup", "create", HOLDFAST_HOME=str(tmp_path / "none"))
    assert empty.returncode == exit_codes.FAILED and "nothing to back up" in empty.stderr


def damage(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * 8192 + content[16384:])


def test_a_damaged_database_is_not_backed_up_over_good_ones(cli: Cli, home: Path) -> None:
    """K3: a backup of damage would be kept, and a good one removed for it."""
    good = make_backup(home)
    damage(home / "state.db")
    refused = cli("backup", "create", "--keep", "1")
    assert refused.returncode == exit_codes.FAILED and "holdfast doctor" in refused.stderr
    assert [*(home / "backups").iterdir()] == [good]


@pytest.mark.parametrize(("way", "text"), [("restore", "Restored: "), ("recover", "Recovered: ")])
def test_the_doctor_asks_what_to_restore_over_a_damaged_database(
    open_terminal: Callable[..., Terminal], home: Path, way: str, text: str
) -> None:
    """K3: by a person's word; the damaged file is set aside as it is."""
    good = make_backup(home).name.removesuffix(".tar.gz")
    damage(home / "state.db")
    damaged = (home / "state.db").read_bytes()
    skip = [part for name in ("model", "sandbox") for part in ("--skip", name)]
    doctor = open_terminal("doctor", "--fix", *skip)
    doctor.wait_for_text("is damaged")
    doctor.wait_for_text("newest good backup")
    doctor.wait_for_text("Which")
    doctor.type_line(way)
    doctor.wait_for_text(text)
    assert doctor.wait_for_exit() == exit_codes.OK
    [moved] = home.glob("state.db.before-restore-*")
    assert moved.read_bytes() == damaged and (home / "state.db").read_bytes() != damaged
    assert good in (path.name.removesuffix(".tar.gz") for path in (home / "backups").iterdir())
