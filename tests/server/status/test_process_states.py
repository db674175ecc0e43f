"""Status of a real process, in every state of its life: it always answers, and says the truth."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.lone_gateway import Lone

from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.system import exit_codes

Document = dict[str, Any]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Lone]:
    made = Lone(tmp_path / "home")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
    if made.process is not None:
        made.process.communicate()


def wait_for_status(
    gateway: Lone, condition: Callable[[Document], object], *, within: float = 30
) -> Document:
    """The status, once a fact of it is so; every single answer counts on the way there."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        time.sleep(0.02)
        try:
            document = read_status(gateway.paths)
        except GatewayDown:
            assert gateway.process is not None and gateway.process.poll() is None, gateway.log()[
                -3000:
            ]
            continue  # it has not come as far as its status
        if condition(document):
            return document
    raise AssertionError(f"it did not come about: {document}")


def in_phase(name: str) -> Callable[[Document], bool]:
    return lambda document: document["snapshot"]["phase"] == name


@pytest.mark.parametrize("phase", ["opening the store", "opening the listeners"])
def test_the_status_of_a_hanging_start_names_its_phase(gateway: Lone, phase: str) -> None:
    gateway.launch(stall=f"{phase}:hang")
    document = wait_for_status(gateway, in_phase(phase))
    assert document["state"] == "starting"
    assert document["snapshot"]["order"] is None
    assert document["snapshot"]["phase_since"] >= document["started_at"]
    assert gateway.stop() == exit_codes.OK


def test_the_status_of_a_hanging_stop_names_its_phase_and_who_requested_it(gateway: Lone) -> None:
    """C1: the phases have names, and each is to be seen."""
    gateway.start(stall="flush outbox:hang")
    assert read_status(gateway.paths)["state"] == "running"
    gateway.tell(signal.SIGINT)
    document = wait_for_status(gateway, in_phase("flush outbox"))
    order = document["snapshot"]["order"]
    assert (document["state"], order["kind"], order["by"]) == ("stopping", "stop", "signal")
    assert gateway.ended() == exit_codes.OK


def test_a_blocked_event_loop_is_reported_as_hanging(gateway: Lone) -> None:
    """Law 9, law 14: the last word is served with its age, and is not believed for long."""
    gateway.launch(stall="running:block")
    early = wait_for_status(gateway, lambda document: document["snapshot_age"] > 0.5)
    assert early["state"] in ("running", "starting")
    late = wait_for_status(gateway, lambda document: document["state"] == "hanging")
    assert late["loop"]["age"] > 5 and late["snapshot_age"] > early["snapshot_age"]
    assert late["problems"][0]["code"] == "hanging"
    shown = gateway.cli("status")
    assert shown.returncode == exit_codes.FAILED and "is hanging, last update" in shown.stdout


def test_status_has_the_reason_when_down_and_the_last_stop_after_a_start(gateway: Lone) -> None:
    """E3: by whose word it is down; the last ends are told with what became of the turns."""
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


def test_the_api_and_the_status_socket_agree(gateway: Lone) -> None:
    """One source: what differs between them is only when they were asked."""
    gateway.start()

    def same(document: Document) -> bool:
        problems, over_http = document["snapshot"], gateway.ask("GET", "/status")
        return all(over_http[key] == problems[key] for key in problems.keys() - {"store"})

    document, over_http = wait_for_status(gateway, same), gateway.ask("GET", "/status")
    for key in ("pid", "version", "home", "started_at"):
        assert over_http[key] == document[key]
    assert over_http["machine"].keys() == document["machine"].keys()
    assert gateway.stop() == exit_codes.OK


def test_unit_drift_is_reported_with_the_command_that_repairs_it(gateway: Lone) -> None:
    """E2: read when it is asked for, so that mending it needs no restart to be believed."""
    gateway.start()
    assert read_status(gateway.paths)["machine"]["unit_drift"] == []
    unit = gateway.home / ".config/systemd/user/holdfast.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(f"[Service]\nExecStart=/bin/true --home {gateway.home}\nTimeoutStopSec=5\n")
    problems = [
        each for each in read_status(gateway.paths)["problems"] if each["code"] == "unit_drift"
    ]
    assert any("gives a stop 5 s" in each["what"] for each in problems)
    assert all("holdfast gateway install --force" in each["what"] for each in problems)
    unit.unlink()
    assert read_status(gateway.paths)["machine"]["unit_drift"] == []
    assert gateway.stop() == exit_codes.OK
