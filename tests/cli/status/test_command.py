"""`holdfast status`: what it shows of a gateway that runs, hangs or is down, and how it exits."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from tests.support.command_line import HOLDFAST, Cli, CliGateway, Terminal, environment

from holdfast.cli.status.command import parse_status
from holdfast.cli.status.view import format_status
from holdfast.core.messages.outbox import Address
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import (
    AccountStatus,
    GatewaySnapshot,
    HourStats,
    MachineStatus,
    Problem,
    ProblemLevel,
    StatusReport,
    StoreStatus,
    TurnStatus,
)
from holdfast.core.ports.store_commands import RecordStop
from holdfast.core.text.translatable import Translatable
from holdfast.core.text.translation import use_catalogue
from holdfast.core.turns.stop import HomeChannel, StopKind, StopOrder, StopRequester, StopRow
from holdfast.server.status.thread import Heartbeat, StatusThread
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system import exit_codes
from holdfast.system.clock import SystemClock
from holdfast.system.languages import PseudoCatalogue
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths

NOW = 1_000_000.0


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "home").mkdir(mode=0o700)
    return Paths(tmp_path / "home")


class StuckLoop:
    """An event loop that runs no callback."""

    def call_later(self, *args: Any) -> None:
        pass


def document(**snapshot: Any) -> StatusReport:
    return StatusReport(
        state="running",
        pid=7,
        version="1.2",
        home="/h",
        started_at=NOW - 7200,
        uptime=7200,
        snapshot=GatewaySnapshot(**{"state": "running", **snapshot}),
    )


def stop(kind: StopKind, *, by: StopRequester = StopRequester.CLI, **more: Any) -> StopRow:
    order = StopOrder(kind=kind, by=by, at=NOW - 100)
    return StopRow(id=f"r_{kind}", order=order, version="1", **more)


def test_a_running_gateway_is_shown_with_its_address(cli: Cli, paths: Paths) -> None:
    with StatusThread(paths, clock=SystemClock()) as status:
        status.publish(GatewaySnapshot(state="running", address="http://127.0.0.1:8787"))
        run = cli("status")
        answer = json.loads(cli("status", "--json").stdout)
        quiet = cli("status", "--quiet")
    assert run.returncode == quiet.returncode == exit_codes.OK
    assert "is running" in run.stdout and "http://127.0.0.1:8787" in run.stdout
    assert "\x1b" not in run.stdout
    assert quiet.stdout == quiet.stderr == ""
    assert msgspec.convert(answer, StatusReport).snapshot.address == "http://127.0.0.1:8787"


_RUN_AND_LIST_MODULES = """
import sys
from holdfast.cli.root import cli
try:
    cli(sys.argv[1:], prog_name="holdfast")
except SystemExit as done:
    assert not done.code
print(*sys.modules, sep="\\n", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [("status", "--json"), ("status", "--quiet"), ("top", "--once", "--json")]
)
def test_the_status_of_a_running_gateway_imports_only_what_it_needs(
    paths: Paths, arguments: tuple[str, ...]
) -> None:
    """A health check pays for these imports. A person gets tables too, by rich."""
    with StatusThread(paths, clock=SystemClock()) as status:
        status.publish(GatewaySnapshot(state="running", address="http://127.0.0.1:8787"))
        run = subprocess.run(
            [sys.executable, "-c", _RUN_AND_LIST_MODULES, *arguments],
            env=environment(paths.home.parent),
            capture_output=True,
            text=True,
            check=True,
        )
    assert "--quiet" in arguments or json.loads(run.stdout)["state"] == "running"
    loaded = set(run.stderr.split())
    tops = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    known = {"click", "msgspec", "typing_extensions", "holdfast", "sitecustomize"}
    assert {name for name in tops if not name.startswith("_")} <= known
    slow = {"asyncio", "tomllib", "shutil", "hashlib", "zoneinfo", "http", "ssl"}
    ours = {
        "holdfast.config.loader",
        "holdfast.core.config.settings",
        "holdfast.core.ports.platform",
        "holdfast.core.ports.runtime",
        "holdfast.core.ports.store",
    }
    assert loaded & (slow | ours) == set()


def test_a_hanging_gateway_fails_and_says_so_first(cli: Cli, paths: Paths) -> None:
    with StatusThread(paths, clock=SystemClock(), hanging_after=0.0) as status:
        status.publish(GatewaySnapshot(state="running"))
        with Heartbeat(StuckLoop(), clock=SystemClock()) as heart:  # type: ignore[arg-type]
            status.watch_heartbeat(heart)
            run = cli("status")
            quiet = cli("status", "-q")
    assert run.returncode == quiet.returncode == exit_codes.FAILED
    headline, first, *_ = run.stdout.splitlines()
    assert "is hanging" in headline and first.startswith("✗ The event loop has been blocked")


def test_a_read_only_store_fails_the_status_and_a_low_disk_does_not(cli: Cli, paths: Paths) -> None:
    """Exit 1 is for a gateway that does not do its work, not for one that wants attention."""
    failing = StoreStatus(error="the disk is full", failed_ago=1.0)
    with StatusThread(paths, clock=SystemClock()) as status:
        status.publish(GatewaySnapshot(state="running", outbox=2, outbox_since=time.time() - 900))
        warned = cli("status")
        status.publish(GatewaySnapshot(state="running", store=failing))
        failed = cli("status")
    assert warned.returncode == exit_codes.OK and "! 2 deliveries wait" in warned.stdout
    assert failed.returncode == exit_codes.FAILED and "the disk is full" in failed.stdout


def test_terminal_control_sequences_from_a_chat_are_removed() -> None:
    turn = TurnStatus(
        session="s_1",
        turn="t_1",
        state="running",
        platform="simulated",
        chat="\x1b[2Jgone",
        started_at=NOW - 5,
        step=1,
        tools=("\x1b]0;x\x07",),
    )
    text = format_status(document(open_turns=(turn,), phase="\x1b[2J"), now=NOW)
    assert "\x1b[2J" not in text and "\x07" not in text


def test_running_turns_are_a_table_with_step_age_and_tool() -> None:
    turns = [
        TurnStatus(
            session=f"s_{n:027x}",
            turn="t",
            state="waiting" if n else "running",
            platform="simulated",
            chat="42",
            started_at=NOW - 12,
            step=3,
            tools=() if n else ("terminal",),
            queued=n,
        )
        for n in range(30)
    ]
    text = format_status(document(open_turns=tuple(turns), more_turns=900), now=NOW)
    (first,) = [line for line in text.splitlines() if "terminal" in line]
    assert " ".join(first.split()) == "s_0000000000000 running 12.0 s 3 terminal - simulated 42"
    assert "… and 910 more" in text


def test_platforms_say_whether_a_round_trip_proves_them() -> None:
    """Law 9."""
    platforms = [
        AccountStatus(name="api", account="default", backlog="none", built_in=True),
        AccountStatus(name="a", account="x", backlog="until_acked", last_ok_at=NOW - 3),
        AccountStatus(name="b", account="x", backlog="none", last_ok_at=NOW - 300),
        AccountStatus(name="c", account="x", backlog="history_since"),
    ]
    text = format_status(document(platforms=tuple(platforms)), now=NOW)
    assert "api:default built in" in text
    assert "a:x connected, last contact 3.0 s ago; keeps unread messages" in text
    silent = "b:x not responding, last contact 5 min ago; messages sent while offline are lost"
    assert silent in text
    assert "c:x not verified yet" in text


def test_a_disconnected_account_says_why_and_when_it_retries() -> None:
    platforms = [
        AccountStatus(
            name="a",
            account="x",
            backlog="until_acked",
            last_ok_at=NOW - 40,
            state=AccountState.RETRYING,
            error="there is nobody",
            next_attempt_at=NOW + 16,
        ),
        AccountStatus(
            name="b", account="x", backlog="none", state=AccountState.BLOCKED, error="bad token"
        ),
        AccountStatus(name="c", account="x", backlog="none", state=AccountState.PAUSED),
        AccountStatus(
            name="d", account="x", backlog="none", last_ok_at=NOW - 300, heartbeat_interval=1740
        ),
    ]
    text = format_status(document(platforms=tuple(platforms)), now=NOW)
    expected = (
        "a:x retrying, last contact 40.0 s ago, next attempt in 16.0 s: there is nobody; keeps"
    )
    assert expected in " ".join(text.split())
    assert "b:x blocked: credentials refused: bad token" in text
    assert "c:x paused" in text
    assert "d:x connected, last contact 5 min ago" in text, (
        "its plugin says that this is often enough"
    )


def test_the_last_restarts_say_why_who_how_many_and_how_long() -> None:
    stops = (
        stop(StopKind.RESTART, parked=3, stopped_at=NOW - 99, ready_at=NOW - 98.4),
        stop(StopKind.CRASH, by=StopRequester.NONE, interrupted=2, ready_at=NOW),
    )
    lines = format_status(document(restarts=stops), now=NOW).splitlines()
    assert lines[-2].split()[2:] == ["restart", "cli", "3", "-", "0.6", "s"]
    assert lines[-1].split()[2:] == ["crash", "-", "-", "2", "-"]


def test_states_and_problems_are_in_the_language_of_the_reader() -> None:
    """The gateway reports in English, for all who ask at the same time."""
    blocked = AccountStatus(
        name="irc",
        account="x",
        backlog="none",
        state=AccountState.BLOCKED,
        error="Bad nick",
        remedy="Set irc.nick to another nick.",
        error_text=Translatable("Bad nick"),
        remedy_text=Translatable("Set {table}.nick to another nick.", {"table": "irc"}),
    )
    raw = msgspec.json.encode(document(platforms=(blocked,), restarts=(stop(StopKind.RESTART),)))
    with use_catalogue(PseudoCatalogue()):
        text = format_status(parse_status(raw), now=NOW)
    assert "is ⟦running⟧" in text and "⟦restart⟧" in text
    assert "⟦Bad nick⟧" in text and "⟦Set irc.nick to another nick" in text
    assert "Bad nick" in format_status(parse_status(raw), now=NOW)


def test_the_phase_and_the_drift_of_a_unit_are_in_the_language_of_the_reader() -> None:
    drift = Translatable("{file} starts nothing.", {"file": "/x"})
    machine = MachineStatus(unit_drift=(str(drift),), drift_texts=(drift,))
    report = msgspec.structs.replace(
        document(state="restarting", phase="close intake", phase_since=NOW - 3), machine=machine
    )
    with use_catalogue(PseudoCatalogue()):
        shown = format_status(parse_status(msgspec.json.encode(report)), now=NOW)
    assert "⟦close intake⟧" in shown
    assert "⟦/x starts nothing.⟧" in shown


def test_a_stop_in_progress_shows_its_phase_and_requester() -> None:
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.PAGE, at=NOW - 4)
    text = format_status(
        document(state="restarting", phase="draining: 2 turns", phase_since=NOW - 3, order=order),
        now=NOW,
    )
    assert "draining: 2 turns for 3.0 s" in click.unstyle(text)
    assert "restart, requested by page" in text


def test_the_next_job_is_shown_if_there_is_one() -> None:
    assert "jobs" not in click.unstyle(format_status(document(), now=NOW))
    text = click.unstyle(format_status(document(next_job=NOW + 90), now=NOW))
    assert "next due in" in text


def test_home_channels_are_named() -> None:
    home = HomeChannel(address=Address(platform="simulated", account="a", chat_id="42"))
    assert "simulated:a in chat 42" in format_status(document(home_channels=(home,)), now=NOW)


def test_problems_are_shown_first() -> None:
    wrong = (
        Problem(level=ProblemLevel.PROBLEM, code="x", what="It is on fire.", remedy="Put it out."),
        Problem(level=ProblemLevel.WARNING, code="y", what="It smells."),
    )
    report = msgspec.structs.replace(document(), problems=wrong)
    lines = format_status(report, now=NOW).splitlines()
    assert [click.unstyle(line) for line in lines[1:4]] == [
        "✗ It is on fire.",
        "  Put it out.",
        "! It smells.",
    ]


def test_without_a_gateway_it_says_how_to_start_one(cli: Cli, paths: Paths) -> None:
    down = cli("status")
    assert down.returncode == exit_codes.GATEWAY_DOWN == 3
    assert "No gateway is running" in down.stderr and "holdfast run" in down.stderr
    answer = json.loads(cli("status", "--json").stdout)
    assert answer["state"] == "down" and answer["ended"]["how"] == "never_ran"
    quiet = cli("status", "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (3, "", "")


def test_a_lock_holder_that_does_not_answer_yet_is_named(cli: Cli, paths: Paths) -> None:
    with HomeLock(paths.home):
        down = cli("status")
        assert "has held this home since" in down.stderr
        assert json.loads(cli("status", "--json").stdout)["held_by"]["purpose"] == "gateway"


def test_the_status_of_a_stopped_gateway_says_since_when_and_by_whom(
    cli: Cli, paths: Paths
) -> None:
    async def stopped() -> None:
        async with SqliteStore(paths.db) as store:
            row = stop(StopKind.STOP, parked=1, interrupted=2, stopped_at=NOW)
            await store.write(RecordStop(row=row))

    asyncio.run(stopped())
    before = sorted(paths.home.iterdir())
    down = cli("status")
    assert "It was stopped by request of cli" in down.stderr
    assert "1 parked, 2 interrupted" in down.stderr
    ended = json.loads(cli("status", "--json").stdout)["ended"]
    assert (ended["how"], ended["at"], ended["stop"]["parked"]) == ("requested", NOW, 1)
    assert sorted(paths.home.iterdir()) == before, "looking leaves nothing behind"


def test_the_status_of_a_killed_gateway_says_so(cli: Cli, gateway: CliGateway) -> None:
    gateway.kill()
    down = cli("status", **gateway.environ)
    assert down.returncode == exit_codes.GATEWAY_DOWN
    assert "was killed, or the machine failed" in down.stderr and "not lost" in down.stderr
    answer = json.loads(cli("status", "--json", **gateway.environ).stdout)
    assert answer["ended"]["how"] == "crash"


def test_watching_draws_again_and_ends_with_ctrl_c(
    paths: Paths, open_terminal: Callable[..., Terminal]
) -> None:
    with StatusThread(paths, clock=SystemClock()) as status:
        status.publish(GatewaySnapshot(state="starting", phase="recovering"))
        terminal = open_terminal("status", "--watch")
        terminal.wait_for_text("recovering")
        status.publish(GatewaySnapshot(state="running"))
        terminal.wait_for_text("is running")
        terminal.type_keys("\x03")
        assert terminal.wait_for_exit() == 0
    assert "\x1b[H\x1b[2J" in terminal.raw


def test_watching_as_json_prints_one_document_per_line(tmp_path: Path, paths: Paths) -> None:
    with StatusThread(paths, clock=SystemClock()) as status:
        status.publish(GatewaySnapshot(state="running"))
        program = [str(HOLDFAST), "status", "--watch", "--json"]
        with subprocess.Popen(
            program, env=os.environ | environment(tmp_path), stdout=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            lines = [json.loads(watching.stdout.readline()) for _ in range(2)]
            watching.terminate()
    assert [line["state"] for line in lines] == ["running", "running"]


def test_a_gateway_of_another_version_is_refused(cli: Cli, paths: Paths) -> None:
    class Odd(StatusThread):
        def report(self, host: MachineStatus | None = None) -> bytes:
            return b'{"state": 5}'

    with Odd(paths, clock=SystemClock()):
        run = cli("status")
    assert run.returncode == exit_codes.FAILED and "has another version" in run.stderr


def test_the_activity_of_the_last_hour_is_shown_if_there_was_any() -> None:
    quiet = click.unstyle(format_status(document(last_hour=HourStats(turns=(0,) * 60)), now=NOW))
    assert "last hour" not in quiet and "latency" not in quiet and "tokens" not in quiet
    once = click.unstyle(format_status(document(last_hour=HourStats(turns=(1, 0, 0))), now=NOW))
    assert "1 turn in the last hour; 0 in" in once
    pace = HourStats(
        turns=(*[0] * 57, 4, 2, 1),
        failed=1,
        first_token_mean=0.8,
        first_token_worst=3.1,
        duration_mean=4.2,
        duration_worst=21,
        input_tokens=214_000,
        cached_tokens=107_000,
        output_tokens=930,
        cost=0.309,
    )
    text = click.unstyle(format_status(document(last_hour=pace), now=NOW))
    assert "7 turns in the last hour, 1 failed; 2 in the last full minute" in text
    assert "first token 0.8 s (slowest 3.1 s), answer 4.2 s (slowest 21.0 s)" in text
    assert "214.0 k in (50% cached), 930 out, cost 0.31" in text
