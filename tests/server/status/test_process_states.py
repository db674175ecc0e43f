"""The status of a real process in every state: it always answers, and is correct."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.standalone_gateway import StandaloneGateway

from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.system import exit_codes

Document = dict[str, Any]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[StandaloneGateway]:
    made = StandaloneGateway(tmp_path / "home")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
    if made.process is not None:
        made.process.communicate()


def wait_for_status(
    gateway: StandaloneGateway, condition: Callable[[Document], object], *, within: float = 30
) -> Document:
    """Polls the status until the condition holds; no answer on the way may fail."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        time.sleep(0.02)
        try:
            document = read_status(gateway.paths)
        except GatewayDown:
            assert gateway.process is not None and gateway.process.poll() is None, gateway.log()[
                -3000:
            ]
            continue  # its status socket is not open yet
        if condition(document):
            return document
    raise AssertionError(f"the condition never held: {document}")


def in_phase(name: str) -> Callable[[Document], bool]:
    return lambda document: document["snapshot"]["phase"] == name


@pytest.mark.parametrize("phase", ["opening the store", "opening the listeners"])
def test_the_status_of_a_hanging_start_names_its_phase(
    gateway: StandaloneGateway, phase: str
) -> None:
    gateway.launch(stall=f"{phase}:hang")
    document = wait_for_status(gateway, in_phase(phase))
    assert document["state"] == "starting"
    assert document["snapshot"]["order"] is None
    assert document["snapshot"]["phase_since"] >= document["started_at"]
    assert gateway.stop() == exit_codes.OK


def test_the_status_of_a_hanging_stop_names_its_phase_and_who_requested_it(
    gateway: StandaloneGateway,
) -> None:
    """C1: the phases have names, and each is visible."""
    gateway.start(stall="flush outbox:hang")
    assert read_status(gateway.paths)["state"] == "running"
    gateway.send_signal(signal.SIGINT)
    document = wait_for_status(gateway, in_phase("flush outbox"))
    order = document["snapshot"]["order"]
    assert (document["state"], order["kind"], order["by"]) == ("stopping", "stop", "signal")
    assert gateway.wait_for_exit() == exit_codes.OK


def test_a_blocked_event_loop_is_reported_as_hanging(gateway: StandaloneGateway) -> None:
    """The last snapshot is served with its age, and only trusted for a while."""
    gateway.launch(stall="running:block")
    early = wait_for_status(gateway, lambda document: document["snapshot_age"] > 0.5)
    assert early["state"] in ("running", "starting")
    late = wait_for_status(gateway, lambda document: document["state"] == "hanging")
    assert late["loop"]["age"] > 5 and late["snapshot_age"] > early["snapshot_age"]
    assert late["problems"][0]["code"] == "hanging"
    shown = gateway.cli("status")
    assert shown.returncode == exit_codes.FAILED and "is hanging, last update" in shown.stdout


def test_status_has_the_reason_when_down_and_the_last_stop_after_a_start(
    gateway: StandaloneGateway,
) -> None:
    """E3: status names who requested the stop; past stops are listed with their turns."""
    gateway.start()
    assert gateway.stop(signal.SIGINT) == exit_codes.OK
    down = json.loads(gateway.cli("status", "--json").stdout)
    assert (down["state"], down["ended"]["how"]) == ("down", "requested")
    assert down["ended"]["stop"]["order"]["kind"] == "stop"
    gateway.start()
    (stop,) = wait_for_status(gateway, lambda document: document["snapshot"]["restarts"])[
        "snapshot"
    ]["restarts"]
    assert stop["order"]["kind"] == "stop" and stop["ready_at"] >= stop["stopped_at"]
    assert gateway.stop() == exit_codes.OK


def test_the_api_and_the_status_socket_agree(gateway: StandaloneGateway) -> None:
    """Both have one source, and differ only in the time of the request."""
    gateway.start()

    def same(document: Document) -> bool:
        problems, over_http = document["snapshot"], gateway.ask("GET", "/status")
        return all(
            over_http[key] == problems[key] for key in problems.keys() - {"store", "model_why"}
        )

    document, over_http = wait_for_status(gateway, same), gateway.ask("GET", "/status")
    for key in ("pid", "version", "home", "started_at"):
        assert over_http[key] == document[key]
    assert over_http["machine"].keys() == document["machine"].keys()
    assert gateway.stop() == exit_codes.OK


def test_unit_drift_is_reported_with_the_command_that_repairs_it(
    gateway: StandaloneGateway,
) -> None:
    """E2: the unit is read on each request, so that a repair needs no restart."""
    gateway.start()
    assert read_status(gateway.paths)["machine"]["unit_drift"] == []
    unit = gateway.home / ".config/systemd/user/holdfast.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(f"[Service]\nExecStart=/bin/true --home {gateway.home}\nTimeoutStopSec=5\n")
    problems = [
        each for each in read_status(gateway.paths)["problems"] if each["code"] == "unit_drift"
    ]
    assert any("allows 5 s for a stop" in each["what"] for each in problems)
    assert all("holdfast gateway install --force" in each["what"] for each in problems)
    unit.unlink()
    assert read_status(gateway.paths)["machine"]["unit_drift"] == []
    assert gateway.stop() == exit_codes.OK
