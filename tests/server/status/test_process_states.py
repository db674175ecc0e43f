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
def lone(tmp_path: Path) -> Iterator[Lone]:
    made = Lone(tmp_path / "home")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
    if made.process is not None:
        made.process.communicate()


def seen(lone: Lone, fact: Callable[[Document], object], *, within: float = 30) -> Document:
    """The status, once a fact of it is so; every single answer counts on the way there."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        time.sleep(0.02)
        try:
            document = read_status(lone.paths)
        except GatewayDown:
            assert lone.process is not None and lone.process.poll() is None, lone.log()[-3000:]
            continue  # it has not come as far as its status
        if fact(document):
            return document
    raise AssertionError(f"it did not come about: {document}")


def in_phase(name: str) -> Callable[[Document], bool]:
    return lambda document: document["snapshot"]["phase"] == name


@pytest.mark.parametrize("phase", ["opening the store", "opening the listeners"])
def test_a_start_that_hangs_says_where(lone: Lone, phase: str) -> None:
    lone.begin(stall=f"{phase}:hang")
    document = seen(lone, in_phase(phase))
    assert document["state"] == "starting"
    assert document["snapshot"]["order"] is None
    assert document["snapshot"]["phase_since"] >= document["started_at"]
    assert lone.stop() == exit_codes.OK


def test_a_stop_that_hangs_says_where_and_whose_word_it_was(lone: Lone) -> None:
    """C1: the phases have names, and each is to be seen."""
    lone.start(stall="flush outbox:hang")
    assert read_status(lone.paths)["state"] == "running"
    lone.tell(signal.SIGINT)
    document = seen(lone, in_phase("flush outbox"))
    order = document["snapshot"]["order"]
    assert (document["state"], order["kind"], order["by"]) == ("stopping", "stop", "signal")
    assert lone.ended() == exit_codes.OK


def test_a_loop_that_stands_still_is_spoken_for_and_said_to_hang(lone: Lone) -> None:
    """Law 9, law 14: the last word is served with its age, and is not believed for long."""
    lone.begin(stall="running:block")
    early = seen(lone, lambda document: document["snapshot_age"] > 0.5)
    assert early["state"] in ("running", "starting")
    late = seen(lone, lambda document: document["state"] == "hanging")
    assert late["loop"]["age"] > 5 and late["snapshot_age"] > early["snapshot_age"]
    assert late["problems"][0]["code"] == "hanging"
    shown = lone.cli("status")
    assert shown.returncode == exit_codes.FAILED and "is hanging, last update" in shown.stdout


def test_once_down_it_says_why_and_after_a_restart_what_happened(lone: Lone) -> None:
    """E3: by whose word it is down; the last ends are told with what became of the turns."""
    lone.start()
    assert lone.stop(signal.SIGINT) == exit_codes.OK
    down = json.loads(lone.cli("status", "--json").stdout)
    assert (down["state"], down["ended"]["how"]) == ("down", "requested")
    assert down["ended"]["stop"]["order"]["kind"] == "stop"
    lone.start()
    (stop,) = seen(lone, lambda document: document["snapshot"]["restarts"])["snapshot"]["restarts"]
    assert stop["order"]["kind"] == "stop" and stop["ready_at"] >= stop["stopped_at"]
    assert lone.stop() == exit_codes.OK


def test_the_page_and_the_socket_say_the_same(lone: Lone) -> None:
    """One source: what differs between them is only when they were asked."""
    lone.start()

    def same(document: Document) -> bool:
        told, over_http = document["snapshot"], lone.ask("GET", "/status")
        return all(over_http[key] == told[key] for key in told.keys() - {"store"})

    document, over_http = seen(lone, same), lone.ask("GET", "/status")
    for key in ("pid", "version", "home", "started_at"):
        assert over_http[key] == document[key]
    assert over_http["machine"].keys() == document["machine"].keys()
    assert lone.stop() == exit_codes.OK


def test_a_unit_that_disagrees_is_told_with_the_command_that_mends_it(lone: Lone) -> None:
    """E2: read when it is asked for, so that mending it needs no restart to be believed."""
    lone.start()
    assert read_status(lone.paths)["machine"]["unit_drift"] == []
    unit = lone.home / ".config/systemd/user/holdfast.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(f"[Service]\nExecStart=/bin/true --home {lone.home}\nTimeoutStopSec=5\n")
    told = [each for each in read_status(lone.paths)["problems"] if each["code"] == "unit_drift"]
    assert any("gives a stop 5 s" in each["what"] for each in told)
    assert all("holdfast gateway install --force" in each["what"] for each in told)
    unit.unlink()
    assert read_status(lone.paths)["machine"]["unit_drift"] == []
    assert lone.stop() == exit_codes.OK
