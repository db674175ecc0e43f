"""How a real process restarts: who is asked for the next one, and when nobody is."""

import os
import signal
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

from tests.faults.lone_gateway import Lone
from tests.service.test_stop import Lones, lone, lones, stops

from holdfast.core.turns.stop import StopKind, StopRequester
from holdfast.server.local.control_client import read_status
from holdfast.system import exit_codes
from holdfast.system.lock import read_holder

__all__ = ["lone", "lones"]  # fixtures

AGAIN = exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE

# What systemd does when it is asked: it queues the work, and its own SIGTERM comes at once.
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$0.calls"
test -z "$NOTIFY_SOCKET" || echo "it got our socket" >> "$0.calls"
kill -TERM "$PPID"
exit {code}
"""


def fake_systemctl(lone: Lone, *, code: int) -> Path:
    """First on the gateway's PATH, and on nobody else's."""
    folder = lone.home / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(SYSTEMCTL.format(code=code))
    program.chmod(0o755)
    lone.variables["PATH"] = f"{folder}:{os.environ['PATH']}"
    return program.with_name("systemctl.calls")


def test_under_systemd_the_unit_is_restarted_and_the_exit_is_clean(lone: Lone) -> None:
    """E1: asking is the last phase, so that systemd's own SIGTERM is no second signal to us."""
    calls = fake_systemctl(lone, code=0)
    lone.variables |= {
        "INVOCATION_ID": "abc",
        "HOLDFAST_GATEWAY_SUPERVISOR": "auto",
        "HOLDFAST_UNIT": "holdfast-test.service",
        "HOLDFAST_SCOPE": "user",
    }
    assert lone.start().stop(signal.SIGUSR1) == exit_codes.OK
    assert calls.read_text() == "--user --no-block restart holdfast-test.service\n"
    assert lone.phases()[-2:] == ["release the lock", "ask for a successor"]
    assert lone.intent() | {"at": 0} == {"state": "stopped", "restart": stops(lone)[0].id, "at": 0}
    (stop,) = stops(lone)
    assert (stop.order.kind, stop.order.by) == (StopKind.RESTART, StopRequester.SIGNAL)


def test_a_systemd_that_cannot_be_asked_is_told_by_the_exit_code(lones: Lones) -> None:
    """E1: 75, which the unit takes as an order to start it again."""
    lone = lones(kept_by="systemd")
    fake_systemctl(lone, code=1)
    lone.variables["HOLDFAST_UNIT"] = "holdfast-test.service"
    assert lone.start().stop(signal.SIGUSR1) == AGAIN
    (line,) = lone.lines("successor_request_failed")
    assert "systemctl --no-block restart holdfast-test.service` failed with 1" in line["message"]


def test_without_a_supervisor_the_successor_is_started_and_listens_where_it_did(
    lones: Lones,
) -> None:
    """E1, D4: by SIGUSR1, and the end of this life is a row that the next one closes."""
    lone = lones(park=30).start()
    message = lone.say("run sleep 600")
    lone.until_runs()
    first = read_status(lone.paths)["pid"]
    assert lone.stop(signal.SIGUSR1) == exit_codes.OK
    lone.until(lambda: lone.status()["state"] == "running" and lone.status()["pid"] != first)
    assert lone.status()["snapshot"]["address"] == lone.address
    assert lone.ask("GET", f"/messages/{message}")["state"] == "running"
    (stop,) = stops(lone)
    assert (stop.parked, stop.interrupted) == (1, 0)
    assert stop.ready_at is not None
    assert lone.intent()["state"] == "running"
    told = lone.cli("gateway", "stop", "--json")
    assert told.returncode == exit_codes.OK, told.stderr
    assert read_holder(lone.home) is None and lone.intent()["state"] == "stopped"
    assert lone.cli("gateway", "stop").returncode == exit_codes.GATEWAY_DOWN


def test_a_restart_into_a_broken_configuration_is_refused_and_the_gateway_goes_on(
    lone: Lone,
) -> None:
    """The reason is told where it was asked for: on the terminal, in the log, over HTTP."""
    lone.start()
    written = lone.paths.config_file.read_text()
    lone.paths.config_file.write_text(written + "\n[agents]\n")
    refused = lone.cli("gateway", "restart")
    assert refused.returncode == exit_codes.FAILED
    assert refused.stderr.startswith("error: Not restarted: ")
    assert "agents" in refused.stderr and "continues" in refused.stderr
    lone.tell(signal.SIGUSR1)
    lone.until(lambda: lone.lines("restart_refused"))
    assert lone.answer(lone.say("hello"))["state"] == "answered"
    assert lone.stop() == exit_codes.OK
    assert lone.launch().wait() == exit_codes.CONFIG_EXIT
    lone.ended()


def test_a_restart_when_idle_waits_for_the_last_turn_and_is_not_asked_for_twice(
    lones: Lones,
) -> None:
    """`--when-idle`: the gateway goes on meanwhile and takes messages, and then cuts nobody."""
    lone = lones(kept_by="s6").start()
    lone.say("run sleep 600", name="long")
    lone.until_runs()
    long = lone.session
    answer = lone.ask("POST", "/restart", {"mode": "when_idle"})
    assert answer == {"kind": "restart", "when_idle": True}
    lone.until(lambda: (lone.status()["snapshot"]["pending_restart"] or {}).get("by") == "page")
    again = lone.cli("gateway", "restart", "--when-idle", "--json")
    assert again.returncode == exit_codes.FAILED and "waits already" in again.stdout
    assert lone.answer(lone.say("hello", name="short"))["state"] == "answered"
    lone.ask("POST", f"/sessions/{long}/stop")
    assert lone.ended() == AGAIN
    (stop,) = stops(lone)
    assert (stop.parked, stop.interrupted) == (0, 0)


def test_a_stop_in_the_middle_of_a_restart_leaves_no_gateway(lones: Lones) -> None:
    """E3: an operator's stop stays one; the successor of the restart that it hurried goes too, and
    at once: also where it runs already, with the turn that was cut, before the first has gone."""
    lone = lones(drain=600, park=600).start("ask for a successor:hang")
    lone.say("run sleep 600")
    lone.until_runs()
    lone.tell(signal.SIGUSR1)
    lone.until_in("drain")
    told = lone.cli("gateway", "stop", "--json")
    assert told.returncode == exit_codes.OK, told.stderr
    assert lone.ended() == exit_codes.OK
    assert read_holder(lone.home) is None and lone.status()["state"] == "down"
    assert lone.intent()["state"] == "stopped" and lone.intent()["restart"] is None


def test_a_stop_is_heard_before_the_control_socket_is_there(lone: Lone) -> None:
    """`gateway stop` says the same by a signal: an operator's word, so that it stays down."""
    lone.launch("opening the store:hang")
    lone.until_in("opening the store")
    assert lone.cli("gateway", "stop").returncode == exit_codes.OK
    assert lone.ended() == exit_codes.OK
    assert lone.intent()["state"] == "stopped"


class Ear:
    """A supervisor's socket, and all that was said to it."""

    def __init__(self, name: str) -> None:
        self.heard: list[str] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while (said := self.socket.recv(4096)) != b"enough":
            self.heard += said.decode().split("\n")

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"enough", self.socket.getsockname())
        self._thread.join()
        self.socket.close()


def test_the_supervisor_hears_that_it_is_ready_turns_and_stops(lone: Lone) -> None:
    """`Type=notify` with a watchdog: fed by the event loop, and by nothing else."""
    name = f"holdfast-test-{os.getpid()}"
    with closing(Ear(f"\0{name}")) as ear:
        lone.variables |= {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "200000"}
        lone.start("drain:block")
        lone.until(lambda: ear.heard.count("WATCHDOG=1") > 3 and "READY=1" in ear.heard)
        assert lone.process is not None
        assert f"MAINPID={lone.process.pid}" in ear.heard
        assert ear.heard.index("STATUS=opening the store") < ear.heard.index("READY=1")
        before = ear.heard[: ear.heard.index("READY=1")]
        told = [each for each in before if each.startswith("STATUS=")]
        assert told[-2:] == ["STATUS=telling who waits", "STATUS=running"]
        assert told.count("STATUS=running") == 1, "it said so before it took messages"
        assert "STOPPING=1" not in ear.heard
        lone.tell()
        lone.until(lambda: "STATUS=stopping (signal): drain" in ear.heard)
        assert "STOPPING=1" in ear.heard
        # The loop stands still, and the process is otherwise well: five feedings are left out.
        assert lone.status()["snapshot"]["phase"] == "drain"
        fed = ear.heard.count("WATCHDOG=1")
        time.sleep(0.5)
        assert ear.heard.count("WATCHDOG=1") == fed
