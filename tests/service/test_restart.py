"""How a real process restarts: which supervisor starts the next one, and without any."""

import os
import signal
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

from tests.faults.standalone_gateway import MakeGateway, StandaloneGateway

from holdfast.core.turns.stop import StopKind, StopRequester
from holdfast.server.local.control_client import read_status
from holdfast.system import exit_codes
from holdfast.system.lock import read_holder

RESTART_EXIT = exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE

# What systemd does when it is asked: it queues the work, and its own SIGTERM comes at once.
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$0.calls"
test -z "$NOTIFY_SOCKET" || echo "it got our socket" >> "$0.calls"
kill -TERM "$PPID"
exit {code}
"""


def fake_systemctl(gateway: StandaloneGateway, *, code: int) -> Path:
    """A `systemctl` that is first on the gateway's PATH."""
    folder = gateway.home / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(SYSTEMCTL.format(code=code))
    program.chmod(0o755)
    gateway.variables["PATH"] = f"{folder}:{os.environ['PATH']}"
    return program.with_name("systemctl.calls")


def test_under_systemd_the_unit_is_restarted_and_the_exit_is_clean(
    gateway: StandaloneGateway,
) -> None:
    """E1: asking is the last phase, so that systemd's own SIGTERM is no second signal to us."""
    calls = fake_systemctl(gateway, code=0)
    gateway.variables |= {
        "INVOCATION_ID": "abc",
        "HOLDFAST_GATEWAY_SUPERVISOR": "auto",
        "HOLDFAST_UNIT": "holdfast-test.service",
        "HOLDFAST_SCOPE": "user",
    }
    assert gateway.start().stop(signal.SIGUSR1) == exit_codes.OK
    assert calls.read_text() == "--user --no-block restart holdfast-test.service\n"
    assert gateway.phases()[-2:] == ["release the lock", "ask for a successor"]
    assert gateway.intent() | {"at": 0} == {
        "state": "stopped",
        "restart": gateway.stop_rows()[0].id,
        "at": 0,
    }
    (stop,) = gateway.stop_rows()
    assert (stop.order.kind, stop.order.by) == (StopKind.RESTART, StopRequester.SIGNAL)


def test_the_exit_code_requests_a_restart_when_systemctl_fails(make_gateway: MakeGateway) -> None:
    """E1: 75, which the unit takes as an order to start it again."""
    gateway = make_gateway(supervisor="systemd")
    fake_systemctl(gateway, code=1)
    gateway.variables["HOLDFAST_UNIT"] = "holdfast-test.service"
    assert gateway.start().stop(signal.SIGUSR1) == RESTART_EXIT
    (line,) = gateway.log_records("successor_request_failed")
    assert (
        "systemctl --no-block restart holdfast-test.service` failed with exit code 1"
        in line["message"]
    )


def test_without_a_supervisor_the_successor_listens_at_the_same_address(
    make_gateway: MakeGateway,
) -> None:
    """E1, D4: by SIGUSR1, and the end of this life is a row that the next one closes."""
    gateway = make_gateway(park=30).start()
    message = gateway.say("run sleep 600")
    gateway.wait_for_running_turns()
    first = read_status(gateway.paths)["pid"]
    assert gateway.stop(signal.SIGUSR1) == exit_codes.OK
    gateway.until(
        lambda: gateway.status()["state"] == "running" and gateway.status()["pid"] != first
    )
    assert gateway.status()["snapshot"]["address"] == gateway.address
    assert gateway.ask("GET", f"/messages/{message}")["state"] == "running"
    (stop,) = gateway.stop_rows()
    assert (stop.parked, stop.interrupted) == (1, 0)
    assert stop.ready_at is not None
    assert gateway.intent()["state"] == "running"
    stopped = gateway.cli("gateway", "stop", "--json")
    assert stopped.returncode == exit_codes.OK, stopped.stderr
    assert read_holder(gateway.home) is None and gateway.intent()["state"] == "stopped"
    assert gateway.cli("gateway", "stop").returncode == exit_codes.GATEWAY_DOWN


def test_a_restart_with_an_invalid_configuration_is_refused_and_the_gateway_keeps_running(
    gateway: StandaloneGateway,
) -> None:
    """The reason is told where it was asked for: on the terminal, in the log, over HTTP."""
    gateway.start()
    written = gateway.paths.config_file.read_text()
    gateway.paths.config_file.write_text(written + "\n[agents]\n")
    refused = gateway.cli("gateway", "restart")
    assert refused.returncode == exit_codes.FAILED
    assert refused.stderr.startswith("error: Not restarted: ")
    assert "agents" in refused.stderr and "continues" in refused.stderr
    gateway.send_signal(signal.SIGUSR1)
    gateway.until(lambda: gateway.log_records("restart_refused"))
    assert gateway.answer(gateway.say("hello"))["state"] == "answered"
    assert gateway.stop() == exit_codes.OK
    assert gateway.launch().wait() == exit_codes.CONFIG_EXIT
    gateway.wait_for_exit()


def test_a_restart_when_idle_waits_for_the_last_turn_and_a_second_request_is_refused(
    make_gateway: MakeGateway,
) -> None:
    """`--when-idle`: the gateway accepts messages meanwhile, and then interrupts no turn."""
    gateway = make_gateway(supervisor="s6").start()
    gateway.say("run sleep 600", name="long")
    gateway.wait_for_running_turns()
    long = gateway.session
    answer = gateway.ask("POST", "/restart", {"mode": "when_idle"})
    assert answer == {"kind": "restart", "when_idle": True}
    gateway.until(
        lambda: (gateway.status()["snapshot"]["pending_restart"] or {}).get("by") == "page"
    )
    again = gateway.cli("gateway", "restart", "--when-idle", "--json")
    assert again.returncode == exit_codes.FAILED and "already scheduled" in again.stdout
    assert gateway.answer(gateway.say("hello", name="short"))["state"] == "answered"
    gateway.ask("POST", f"/sessions/{long}/stop")
    assert gateway.wait_for_exit() == RESTART_EXIT
    (stop,) = gateway.stop_rows()
    assert (stop.parked, stop.interrupted) == (0, 0)


def test_a_stop_in_the_middle_of_a_restart_leaves_no_gateway(make_gateway: MakeGateway) -> None:
    """E3: an operator's stop stays one; the successor of the restart that it hurried goes too, and
    at once: also where it runs already, with the turn that was cut, before the first has gone."""
    gateway = make_gateway(drain=600, park=600).start("ask for a successor:hang")
    gateway.say("run sleep 600")
    gateway.wait_for_running_turns()
    gateway.send_signal(signal.SIGUSR1)
    gateway.wait_for_phase("drain")
    stopped = gateway.cli("gateway", "stop", "--json")
    assert stopped.returncode == exit_codes.OK, stopped.stderr
    assert gateway.wait_for_exit() == exit_codes.OK
    assert read_holder(gateway.home) is None and gateway.status()["state"] == "down"
    assert gateway.intent()["state"] == "stopped" and gateway.intent()["restart"] is None


def test_a_stop_works_before_the_control_socket_exists(gateway: StandaloneGateway) -> None:
    """`gateway stop` says the same by a signal: an operator's word, so that it stays down."""
    gateway.launch("opening the store:hang")
    gateway.wait_for_phase("opening the store")
    assert gateway.cli("gateway", "stop").returncode == exit_codes.OK
    assert gateway.wait_for_exit() == exit_codes.OK
    assert gateway.intent()["state"] == "stopped"


class NotifySocket:
    """A supervisor's notify socket, and the messages it got."""

    def __init__(self, name: str) -> None:
        self.messages: list[str] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while (message := self.socket.recv(4096)) != b"enough":
            self.messages += message.decode().split("\n")

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"enough", self.socket.getsockname())
        self._thread.join()
        self.socket.close()


def test_the_supervisor_is_notified_of_ready_watchdog_and_stopping(
    gateway: StandaloneGateway,
) -> None:
    """`Type=notify` with a watchdog: fed by the event loop, and by nothing else."""
    name = f"holdfast-test-{os.getpid()}"
    with closing(NotifySocket(f"\0{name}")) as supervisor:
        gateway.variables |= {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "200000"}
        gateway.start("drain:block")
        gateway.until(
            lambda: supervisor.messages.count("WATCHDOG=1") > 3 and "READY=1" in supervisor.messages
        )
        assert gateway.process is not None
        assert f"MAINPID={gateway.process.pid}" in supervisor.messages
        assert supervisor.messages.index("STATUS=opening the store") < supervisor.messages.index(
            "READY=1"
        )
        before = supervisor.messages[: supervisor.messages.index("READY=1")]
        statuses = [each for each in before if each.startswith("STATUS=")]
        assert statuses[-2:] == ["STATUS=telling who waits", "STATUS=running"]
        assert statuses.count("STATUS=running") == 1, "it said so before it took messages"
        assert "STOPPING=1" not in supervisor.messages
        gateway.send_signal()
        gateway.until(lambda: "STATUS=stopping (signal): drain" in supervisor.messages)
        assert "STOPPING=1" in supervisor.messages
        # The loop stands still, and the process is otherwise well: five feedings are left out.
        assert gateway.status()["snapshot"]["phase"] == "drain"
        fed = supervisor.messages.count("WATCHDOG=1")
        time.sleep(0.5)
        assert supervisor.messages.count("WATCHDOG=1") == fed
