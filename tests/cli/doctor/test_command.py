"""`holdfast doctor`: the problems of a home, why they matter, what to do, and repairing them."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.stored_turn import store_answered_turn
from tests.faults.backup_homes import leave_in_wal
from tests.support.command_line import HOLDFAST, Cli, CliGateway, environment

from holdfast.cli.doctor.checks import CHECKS
from holdfast.runner.cgroups import find_cgroups
from holdfast.system import exit_codes
from holdfast.system.paths import Paths

QUICK = ("--skip", "model", "--skip", "sandbox")  # what calls others or tries programs


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(tmp_path / "home")
    made.home.mkdir(mode=0o700)
    made.config_file.write_text(
        '[model]\nprovider = "demo"\n[runner]\nsandbox = "off"\nsandbox_off_as_root = true\n'
    )
    asyncio.run(store_answered_turn(made))
    return made


def findings(run: subprocess.CompletedProcess[str], check: str) -> list[dict[str, Any]]:
    document = json.loads(run.stdout)
    assert document["healthy"] == (run.returncode == exit_codes.OK)
    return [each for each in document["findings"] if each["check"] == check]


def test_a_healthy_home_has_no_problems(cli: Cli, paths: Paths) -> None:
    shown = cli("doctor")
    assert shown.returncode == exit_codes.OK, shown.stdout + shown.stderr
    assert "No problems found." in shown.stdout
    assert "every page was read" in shown.stdout
    names = list(CHECKS)
    document = json.loads(cli("doctor", "--json").stdout)
    assert list(dict.fromkeys(each["check"] for each in document["findings"])) == names
    assert not paths.lock.exists()


def test_every_finding_that_is_not_fine_says_why_and_what_to_do(cli: Cli, paths: Paths) -> None:
    paths.home.chmod(0o755)
    (paths.home / "holdfast.toml").write_text("[modle]\n")
    document = json.loads(cli("doctor", "--json").stdout)
    wrong = [each for each in document["findings"] if each["level"] != "ok"]
    assert {each["check"] for each in wrong} >= {"permissions", "config"}
    assert all(each["what"] and each["why"] and each["remedy"] for each in wrong)


def test_files_readable_by_others_are_reported_and_fixed(cli: Cli, paths: Paths) -> None:
    paths.home.chmod(0o755)
    paths.env_file.write_text("KEY=x\n")
    paths.env_file.chmod(0o644)
    looked = cli("doctor", "--json", *QUICK)
    assert len(findings(looked, "permissions")) == 2
    assert looked.returncode == exit_codes.FAILED
    assert paths.env_file.stat().st_mode & 0o777 == 0o644  # looking changes nothing
    repaired = cli("doctor", "--fix", *QUICK)
    assert repaired.returncode == exit_codes.OK and "fixed:" in repaired.stdout
    assert paths.env_file.stat().st_mode & 0o777 == 0o600
    assert paths.home.stat().st_mode & 0o777 == 0o700


def test_leftovers_of_a_killed_process_are_removed(cli: Cli, paths: Paths) -> None:
    paths.lock.write_text("{}")
    assert findings(cli("doctor", "--json", *QUICK), "leftovers")[0]["fixable"]
    cli("doctor", "--fix", *QUICK)
    assert not paths.lock.exists()


def test_a_damaged_database_is_reported_and_not_changed(cli: Cli, paths: Paths) -> None:
    """K3: damage is noticed, and not a byte is written to the file, nor its log folded into it."""
    content = paths.db.read_bytes()
    paths.db.write_bytes(content[:8192] + b"\xff" * 8192 + content[16384:])
    leave_in_wal(paths.home, "late", "in the log")
    damaged = [path.read_bytes() for path in (paths.db, paths.home / "state.db-wal")]
    looked = cli("doctor", "--json", "--fix", *QUICK)
    assert looked.returncode == exit_codes.FAILED, looked.stdout
    assert findings(looked, "database")[0]["level"] == "problem"
    assert [path.read_bytes() for path in (paths.db, paths.home / "state.db-wal")] == damaged


def test_only_the_first_of_many_faults_of_a_file_are_reported(cli: Cli, paths: Paths) -> None:
    """K3: SQLite has a line for every page that it misses, and a person has one screen."""
    content = paths.db.read_bytes()
    pages = len(content) // 4096 + 40  # of which the last forty belong to nothing
    grown = content[:28] + pages.to_bytes(4, "big") + content[32:] + bytes(40 * 4096)
    paths.db.write_bytes(grown)
    [finding] = findings(cli("doctor", "--json", *QUICK), "database")
    assert finding["what"].count("never used") == 3
    assert finding["what"].endswith("; and 37 more")


def test_a_search_index_that_does_not_work_is_reported(cli: Cli, paths: Paths) -> None:
    (paths.home / "search.db").mkdir()
    looked = cli("doctor", "--json", *QUICK)
    warnings = [each for each in findings(looked, "database") if each["level"] == "warning"]
    assert warnings[0]["remedy"] == "holdfast search --rebuild" and warnings[0]["fixable"]


def test_accounts_that_two_machines_would_both_answer_are_named(cli: Cli, paths: Paths) -> None:
    """No lock reaches another machine: the person has to know, and what to do then."""
    (named,) = findings(cli("doctor", "--json", *QUICK), "accounts")
    assert named["level"] == "ok" and named["remedy"] == ""
    with paths.config_file.open("a") as file:
        file.write('[platforms.discord]\ntoken = "env:D"\n[platforms.discord.accounts.work]\n')
        file.write('token = "env:E"\n[platforms.telegram]\ntoken = "env:T"\n[platforms.matrix]\n')
        file.write('homeserver = "http://127.0.0.1:1"\nuser = "@b:h"\npassword = "env:M"\n')
    paths.env_file.write_text("D=a\nE=b\nT=c\nM=d\n")
    paths.env_file.chmod(0o600)
    looked = cli("doctor", "--json", *QUICK)
    assert looked.returncode == exit_codes.OK, looked.stdout
    found = findings(looked, "accounts")
    assert [each["what"].partition(" ")[0] for each in found] == [
        "discord:default",
        "discord:work",
        "matrix:default",
    ]
    assert all("both answer" in each["why"] for each in found)
    assert "Reset Token" in found[0]["remedy"] and "Log out" in found[2]["remedy"]
    shown = cli("doctor", *QUICK).stdout
    assert "✓ accounts" in shown and "stop the other gateway" in shown


def test_a_model_that_does_not_answer_is_a_problem(cli: Cli, paths: Paths) -> None:
    paths.config_file.write_text(
        '[model]\nprovider = "local"\nname = "x"\nbase_url = "http://127.0.0.1:1/v1"\nretries = 0\n'
    )
    looked = cli("doctor", "--json")
    assert looked.returncode == exit_codes.FAILED
    assert findings(looked, "model")[0]["level"] == "problem"


def test_a_unit_that_does_not_match_the_configuration_is_reported(cli: Cli, paths: Paths) -> None:
    """E2: a stop timeout too short for the drain, and a program that is not there; each way to
    disagree is in tests/service/supervisors/test_drift.py."""
    unit = paths.home.parent / ".config/systemd/user/holdfast.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(
        f"[Service]\nType=notify\nKillMode=mixed\nTimeoutStopSec=339\n"
        f"RestartForceExitStatus=75\nRestartPreventExitStatus=78\n"
        f"ExecStart=/nowhere/holdfast run --home {paths.home}\n"
    )
    drain = {"HOLDFAST_GATEWAY_RESTART_DRAIN_TIMEOUT": "300"}
    stop, program = findings(cli("doctor", "--json", *QUICK, **drain), "units")
    assert (stop["level"], "340 s" in stop["what"]) == ("warning", True)
    assert (program["level"], "/nowhere/holdfast" in program["what"]) == ("problem", True)
    assert all("holdfast gateway install --force" in each["remedy"] for each in (stop, program))


def test_the_doctor_queries_a_running_gateway_without_disturbing_it(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    """K1: the doctor goes through the running gateway."""
    cli("ask", "--session", "doctor", "[text well]", **shared_gateway.environ)
    looked = cli("doctor", "--json", **shared_gateway.environ)
    assert looked.returncode == exit_codes.OK, looked.stdout
    assert "running" in findings(looked, "lock")[0]["what"]
    assert [each["level"] for each in findings(looked, "database")] == ["ok", "ok"]
    assert cli("status", **shared_gateway.environ).returncode == exit_codes.OK


def test_accounts_that_are_paused_or_not_connected_yet_are_named(tmp_path: Path, cli: Cli) -> None:
    gateway = CliGateway(tmp_path)
    gateway.configure(
        '[model]\nprovider = "demo"\n[runner]\nsandbox = "off"\nsandbox_off_as_root = true\n'
        '[platforms.simulated]\nbase_url = "http://127.0.0.1:1"\ntoken = "env:BOT"\n'
        'allow = ["ann"]\n[platforms.simulated.accounts.work]\n'
        'base_url = "http://127.0.0.1:1"\ntoken = "env:OTHER_BOT"\n'
    )
    (gateway.home / ".env").write_text("BOT=one-token-or-so\nOTHER_BOT=another-token\n")
    (gateway.home / ".env").chmod(0o600)
    gateway.start()
    try:
        paused = cli("platforms", "pause", "simulated:work", **gateway.environ)
        assert paused.returncode == exit_codes.OK, paused.stderr
        looked = cli("doctor", "--json", *QUICK, **gateway.environ)
    finally:
        gateway.stop()
    assert {each["what"] for each in findings(looked, "gateway")} == {
        "No account, job or delivery has a problem.",
        "simulated:default is not connected yet.",
        "simulated:work is paused.",
    }


def test_a_missing_home_is_not_created(cli: Cli, tmp_path: Path) -> None:
    shown = cli("doctor")
    assert shown.returncode == exit_codes.OK and "nothing to check yet" in shown.stdout
    assert not (tmp_path / "home").exists()


def test_a_check_that_does_not_exist_cannot_be_skipped(cli: Cli) -> None:
    refused = cli("doctor", "--skip", "modle")
    assert refused.returncode == 2 and "The checks are: versions" in refused.stderr


def test_a_finding_of_several_lines_is_indented_under_its_first(cli: Cli, paths: Paths) -> None:
    paths.config_file.write_text('[model]\nprovider = "demo"\n[modle]\n[gatewy]\n')
    lines = cli("doctor", *QUICK).stdout.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("✗ config"))
    last = next(n for n, line in enumerate(lines) if n > first and line.startswith("    why:"))
    assert last > first + 1, "this finding has several lines"
    assert all(line.startswith(" " * 15) or not line for line in lines[first + 1 : last])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_tools_that_cannot_run_are_a_problem_with_a_remedy(cli: Cli, paths: Paths) -> None:
    paths.config_file.write_text('[model]\nprovider = "demo"\n[runner]\nsandbox = "off"\n')
    (found,) = findings(cli("doctor", "--json", "--skip", "model"), "sandbox")
    assert found["level"] == "problem"
    assert found["why"] == "Agents have no terminal, processes and files."
    assert "sandbox_off_as_root = true" in found["remedy"]


@pytest.mark.parametrize("mounted", [True, False])
def test_shared_memory_without_a_limit_is_reported(
    tmp_path: Path, paths: Paths, mounted: bool
) -> None:
    """In a mount namespace of its own, a machine has no cgroups."""
    if os.geteuid() or "memory" not in find_cgroups().controllers:
        pytest.skip("needs root and cgroups")
    hide = "umount -a -t cgroup; umount -a -t cgroup2; mount -t tmpfs none /sys/fs/cgroup; "
    script = f'{"" if mounted else hide}exec "$@"'
    command = [HOLDFAST, "doctor", "--json", "--skip", "model"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    last = findings(done, "sandbox")[-1]
    if mounted:
        assert (last["level"], "memory" in last["what"]) == ("ok", True)
    else:
        assert last["what"] == "Shared memory of commands has no limit."
        assert (last["level"], "gateway install" in last["remedy"]) == ("warning", True)
