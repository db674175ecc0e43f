"""The page restarts its gateway: it says what is waited for, comes back, and shows all once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.page.conftest import Visit, serving
from tests.server.page.test_accessibility import DESKTOP, PHONE, serious
from tests.server.page.test_reconnect import answered, said
from tests.server.page.visitor import Visitor
from tests.support.gateway_process import GatewayProcess

from holdfast.system import exit_codes
from holdfast.testing.misbehaving_model.process import ModelProcess

ENDLESS = {"match": "slowly", "delay": 0.1, "text": " ".join(f"word{n}" for n in range(999))}
AWAY = "Restarting… what you write is kept"


@pytest.fixture
def kept_gateway(chromium: Any, tmp_path: Path, model: ModelProcess) -> Iterator[GatewayProcess]:
    """A gateway whose supervisor is the test: it leaves with 75, and is started again."""
    model.reset()
    wanted = {"HOLDFAST_GATEWAY_SUPERVISOR": "s6", "HOLDFAST_GATEWAY_PARK_TIMEOUT": "120"}
    with serving(tmp_path / "home", model, **wanted) as gateway_process:
        yield gateway_process


def work(visitor: Visitor) -> None:
    """A turn runs that does not end by itself."""
    visitor.gateway.model.script(ENDLESS, {"match": "slowly", "text": "there it is"})
    visitor.say("slowly")
    visitor.page.locator(".reply.live").get_by_text("word2").wait_for()


def ask_to_restart(visitor: Visitor, way: str) -> Any:
    """Fill the dialog in, and send it; the dialog."""
    visitor.page.get_by_role("button", name="Restart…").click()
    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_label(way).check()
    dialog.get_by_role("button", name="Restart", exact=True).click()
    return dialog


def follow(gateway_process: GatewayProcess, visitor: Visitor) -> None:
    """It goes, its successor comes, and the page is with that one."""
    assert gateway_process.leaves() == exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE
    visitor.page.get_by_text(AWAY).wait_for()
    gateway_process.start()
    visitor.page.get_by_text(AWAY).wait_for(state="hidden")
    visitor.page.get_by_text("Connected", exact=True).wait_for()


def test_a_restart_waits_for_a_turn_and_the_page_for_the_successor(
    kept_gateway: GatewayProcess, visit: Visit
) -> None:
    """C2, F6: the page says what is waited for. What is written meanwhile is sent to the
    successor, which goes on with what was cut; and all of it is shown once."""
    visitor = visit(kept_gateway)
    work(visitor)
    dialog = ask_to_restart(visitor, "Soon")
    visitor.page.get_by_text("Restarting: waiting for 1 turn").wait_for()
    dialog.wait_for(state="hidden")
    kept_gateway.hurries()
    visitor.page.get_by_text(AWAY).wait_for()
    visitor.page.get_by_role("button", name="What sending does").click()
    visitor.page.get_by_role("menuitemradio", name="Queue").click()
    visitor.say("and this")
    follow(kept_gateway, visitor)
    visitor.replies.get_by_text("You said: and this").wait_for()
    visitor.until_idle()
    assert said(visitor) == ["slowly", "and this"]
    assert answered(visitor) == ["there it is", "You said: and this"]
    (stop,) = visitor.fetch("GET", "/api/v1/restarts").json()["restarts"]
    assert (stop["order"]["by"], stop["interrupted"], stop["resumed"]) == ("page", 1, 1)
    assert stop["phases"]["drain"] > 0 and "disconnect platforms" in stop["phases"]
    shown = visitor.page.locator(".column").inner_text()
    visitor.page.reload()
    visitor.replies.nth(1).wait_for()
    assert visitor.page.locator(".column").inner_text() == shown


def test_a_restart_when_nothing_runs_waits_as_long_as_that_takes(
    kept_gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(kept_gateway)
    work(visitor)
    ask_to_restart(visitor, "When nothing runs")
    visitor.page.get_by_text("The gateway restarts as soon as nothing runs.").wait_for()
    visitor.page.goto(f"{kept_gateway.address}/#/restarts")
    visitor.page.get_by_text("A restart waits until nothing runs: 1 turn runs.").wait_for()
    visitor.page.get_by_role("link", name="Chats").click()
    visitor.page.get_by_role("button", name="Stop").click()
    follow(kept_gateway, visitor)
    visitor.until_idle()
    assert said(visitor) == ["slowly"]


def test_a_restart_that_is_refused_is_told_in_the_dialog(
    kept_gateway: GatewayProcess, visit: Visit
) -> None:
    """A successor that could not start is not begun: the reason names the place."""
    visitor = visit(kept_gateway)
    kept_gateway.paths.config_file.write_text("[gateway]\nprot = 1\n")
    dialog = ask_to_restart(visitor, "Now")
    dialog.get_by_role("alert").get_by_text("gateway.prot").wait_for()
    dialog.get_by_role("button", name="Cancel").click()
    visitor.ask("[text still here]")
    assert answered(visitor) == ["still here"]


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)])
def test_the_dialog_is_for_everyone(
    gateway: GatewayProcess, visit: Visit, theme: str, viewport: dict[str, int]
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
    assert dialog.get_by_label("When nothing runs").is_checked()
    assert serious(page, theme) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert opener.evaluate("node => node === document.activeElement")
