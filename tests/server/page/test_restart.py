"""The page restarts its gateway: it shows what the restart waits for, and reconnects."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.page.accessibility import DESKTOP, PHONE, serious_violations
from tests.server.page.gateways import running_gateway
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway

from holdfast.system import exit_codes
from holdfast.testing.misbehaving_model.process import ModelProcess

ENDLESS_REPLY = {"match": "slowly", "delay": 0.1, "text": " ".join(f"word{n}" for n in range(999))}
RESTARTING_NOTICE = "Restarting… What you write is saved here"


@pytest.fixture
def supervised_gateway(
    chromium: Any, tmp_path: Path, model: ModelProcess
) -> Iterator[SpawnedGateway]:
    """A gateway whose supervisor is the test: it exits with 75, and the test starts it again."""
    model.reset()
    variables = {"HOLDFAST_GATEWAY_SUPERVISOR": "s6", "HOLDFAST_GATEWAY_PARK_TIMEOUT": "120"}
    with running_gateway(tmp_path / "home", model, **variables) as gateway_process:
        yield gateway_process


def start_endless_turn(visitor: Visitor) -> None:
    """Starts a turn that does not end by itself."""
    visitor.gateway.model.script(ENDLESS_REPLY, {"match": "slowly", "text": "there it is"})
    visitor.send("slowly")
    visitor.page.locator(".reply.live").get_by_text("word2").wait_for()


def request_restart(visitor: Visitor, choice: str) -> Any:
    """Fills in the restart dialog and submits it."""
    visitor.page.get_by_role("button", name="Restart…").click()
    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_label(choice).check()
    dialog.get_by_role("button", name="Restart", exact=True).click()
    return dialog


def start_successor(gateway_process: SpawnedGateway, visitor: Visitor) -> None:
    """Waits for the exit, starts the successor, and waits until the page is connected to it."""
    assert gateway_process.wait_for_exit() == exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE
    visitor.page.get_by_text(RESTARTING_NOTICE).wait_for()
    gateway_process.start()
    visitor.page.get_by_text(RESTARTING_NOTICE).wait_for(state="hidden")
    visitor.page.get_by_text("Connected", exact=True).wait_for()


def test_a_restart_waits_for_a_turn_and_the_page_for_the_successor(
    supervised_gateway: SpawnedGateway, visit: Visit
) -> None:
    """C2, F6: the page shows what the restart waits for. A message written meanwhile is sent to
    the successor, which resumes the interrupted turn; everything is shown once."""
    visitor = visit(supervised_gateway)
    start_endless_turn(visitor)
    dialog = request_restart(visitor, "Soon")
    visitor.page.get_by_text("Restarting: waiting for 1 turn").wait_for()
    dialog.wait_for(state="hidden")
    supervised_gateway.interrupt_stop()
    visitor.page.get_by_text(RESTARTING_NOTICE).wait_for()
    visitor.choose_busy_mode("Queue")
    visitor.send("and this")
    start_successor(supervised_gateway, visitor)
    visitor.replies.get_by_text("You said: and this").wait_for()
    visitor.until_idle()
    assert visitor.user_texts() == ["slowly", "and this"]
    assert visitor.reply_texts() == ["there it is", "You said: and this"]
    (stop,) = visitor.fetch("GET", "/api/v1/restarts").json()["restarts"]
    assert (stop["order"]["by"], stop["interrupted"], stop["resumed"]) == ("page", 1, 1)
    assert stop["phases"]["drain"] > 0 and "disconnect platforms" in stop["phases"]
    shown = visitor.page.locator(".column").inner_text()
    visitor.page.reload()
    visitor.replies.nth(1).wait_for()
    assert visitor.page.locator(".column").inner_text() == shown


def test_a_restart_when_idle_waits_until_no_turn_runs(
    supervised_gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(supervised_gateway)
    start_endless_turn(visitor)
    request_restart(visitor, "When no turn runs")
    visitor.page.get_by_text("The gateway restarts as soon as no turn runs.").wait_for()
    visitor.page.goto(f"{supervised_gateway.address}/#/restarts")
    visitor.page.get_by_text("A restart waits until no turn runs: 1 turn is running.").wait_for()
    visitor.page.get_by_role("link", name="Chats").click()
    visitor.page.get_by_role("button", name="Stop").click()
    start_successor(supervised_gateway, visitor)
    visitor.until_idle()
    assert visitor.user_texts() == ["slowly"]


def test_a_refused_restart_shows_its_reason_in_the_dialog(
    supervised_gateway: SpawnedGateway, visit: Visit
) -> None:
    """A successor that could not start is not started: the reason names the wrong key."""
    visitor = visit(supervised_gateway)
    supervised_gateway.paths.config_file.write_text("[gateway]\nprot = 1\n")
    dialog = request_restart(visitor, "Now")
    dialog.get_by_role("alert").get_by_text("gateway.prot").wait_for()
    dialog.get_by_role("button", name="Cancel").click()
    visitor.send_and_wait("[text still here]")
    assert visitor.reply_texts() == ["still here"]


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)])
def test_the_restart_dialog_is_accessible(
    gateway: SpawnedGateway, visit: Visit, theme: str, viewport: dict[str, int]
) -> None:
    visitor = visit(gateway, color_scheme=theme, viewport=viewport)
    page = visitor.page
    opener = page.get_by_role("button", name="Restart…")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Restart the gateway?")
    dialog.wait_for()
    assert dialog.get_by_label("Soon").evaluate("node => node === document.activeElement")
    page.keyboard.press("ArrowDown")
    assert dialog.get_by_label("When no turn runs").is_checked()
    assert serious_violations(page, theme) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert opener.evaluate("node => node === document.activeElement")
