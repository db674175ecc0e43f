"""Settings on the dashboard: read, edited in place, and restored."""

import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.page.accessibility import DESKTOP, PHONE, serious_violations
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway

from holdfast.server.local.control_client import ControlClient, GatewayRefused

FILE = """\
# mine
[agent]
max_steps = 12  # enough

[prices."gpt-4.1"]
input = 2
output = 8
"""


@pytest.fixture(scope="module")
def home(home: Path) -> Path:
    (home / "holdfast.toml").write_text(FILE)
    return home


@pytest.fixture(scope="module")
def gateway(gateway: SpawnedGateway) -> SpawnedGateway:
    """The gateway, once it has stored the file as a version."""
    _wait_until(lambda: ControlClient(gateway.paths).get("/config")["number"] > 0)
    return gateway


def _wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read_config(gateway: SpawnedGateway) -> dict[str, Any]:
    return tomllib.loads((gateway.home / "holdfast.toml").read_text())


def open_settings(visitor: Visitor, address: str) -> Any:
    page = visitor.page
    page.goto(f"{visitor.gateway.address}/#/settings{address}")
    page.locator(".views .card").first.wait_for()
    return page


def search(page: Any, words: str, *, found: str) -> None:
    """Returns when the other keys are gone: what moves under the pointer cannot be clicked."""
    page.get_by_label("Search").fill(words)
    page.get_by_role("status").get_by_text(found, exact=True).wait_for()


def change(page: Any, key: str, value: str) -> None:
    page.get_by_label(f"Change {key}", exact=True).click()
    page.locator("form.change").get_by_label(key.rpartition(".")[2], exact=True).fill(value)
    page.locator("form.change").get_by_role("button", name="Save").click()


def test_keys_are_found_changed_in_place_and_refused_beside_their_field(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway, viewport=DESKTOP)
    page = open_settings(visitor, "")
    search(page, "max_steps", found="2 keys")
    row = page.get_by_role("listitem").filter(has=page.get_by_label("Change agent.max_steps"))
    row.get_by_text("holdfast.toml", exact=True).wait_for()
    row.get_by_text("at the next turn", exact=True).wait_for()
    change(page, "agent.max_steps", "0")
    problem = page.locator("form.change [role=alert]")
    problem.filter(has_text="holdfast.toml, line 3: agent.max_steps").wait_for()
    assert serious_violations(page) == []
    assert read_config(gateway)["agent"]["max_steps"] == 12
    page.locator("form.change input").fill("40")
    page.keyboard.press("Enter")
    row.locator(".value code", has_text="40").wait_for()
    assert read_config(gateway)["agent"]["max_steps"] == 40
    assert "# enough" in (gateway.home / "holdfast.toml").read_text()

    search(page, "runner.output_kb", found="1 key")
    change(page, "runner.output_kb", "64")
    waits = page.get_by_role("list", name="Notices about the configuration")
    waits.get_by_text("runner.output_kb").wait_for()
    waits.get_by_role("button", name="Restart the gateway…").wait_for()
    page.get_by_text("active until then: 32").wait_for()
    page.get_by_label("Change runner.output_kb", exact=True).click()
    page.get_by_role("button", name="Reset to default").click()
    waits.wait_for(state="detached")
    assert "output_kb" not in str(read_config(gateway))


def test_an_unknown_section_shows_an_error_and_the_links_to_the_others(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """Also a section whose name is a property of every JavaScript object."""
    visitor = visit(gateway, viewport=DESKTOP)
    for section in ("constructor", "nonsense"):
        page = open_settings(visitor, f"/{section}")
        page.get_by_role("alert").get_by_text(section).wait_for()
        tabs = page.get_by_role("navigation", name="Settings")
        assert tabs.locator("[aria-current]").count() == 0
    tabs.get_by_role("link", name="Keys").click()
    page.get_by_label("Search").wait_for()


def test_a_list_of_tables_is_edited_in_place_as_a_whole(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway, viewport=PHONE)
    page = open_settings(visitor, "/q=fallbacks")
    change_it = page.get_by_label("Change model.fallbacks", exact=True)
    form = page.locator("form.change")
    save = form.get_by_role("button", name="Save")
    change_it.click()
    form.get_by_role("button", name="Add one").click()
    first = form.get_by_role("group", name="fallbacks 1")
    first.get_by_label("provider").select_option("local")
    first.get_by_label("base_url").fill("nowhere")
    save.click()
    form.get_by_role("alert").filter(has_text="model.fallbacks[0].base_url").wait_for()
    assert serious_violations(page) == []
    first.get_by_label("base_url").fill("http://127.0.0.1:9/v1")
    form.get_by_role("button", name="Add one").click()
    form.get_by_role("group", name="fallbacks 2").get_by_label("provider").select_option("demo")
    form.get_by_label("Move fallbacks 2 up").click()
    save.click()
    form.wait_for(state="detached")
    local = {"provider": "local", "base_url": "http://127.0.0.1:9/v1"}
    assert read_config(gateway)["model"]["fallbacks"] == [{"provider": "demo"}, local]
    change_it.click()
    form.get_by_label("Remove fallbacks 1").click()
    save.click()
    form.wait_for(state="detached")
    assert page.locator(".tables li").count() == 1
    assert read_config(gateway)["model"]["fallbacks"] == [local]
    change_it.click()
    form.get_by_label("Remove fallbacks 1").click()
    save.click()
    form.wait_for(state="detached")
    assert "fallbacks" not in read_config(gateway).get("model", {})


_OVERTAKEN_REQUESTS = """
async () => {
  const { html, render } = await import("/page/vendor/preact-htm.module.js");
  const { useFetched } = await import("/page/view/use_fetched.js");
  const source = { last: 0, subscribe: () => () => {} };
  const answers = [];
  const ask = () => new Promise((resolve) => answers.push(resolve));
  const place = document.createElement("div");
  let refresh;
  render(html`<${() => {
    const fetched = useFetched(source, ask, 0);
    refresh = fetched.refresh;
    return fetched.value;
  }} />`, place);
  const shown = async (text) => {
    while (place.textContent !== text) await new Promise(requestAnimationFrame);
  };
  while (!answers.length) await new Promise(requestAnimationFrame);
  answers[0]("at first");
  await shown("at first");
  const saved = refresh();
  refresh(); // by an event of the stream
  answers[1]("saved");
  await saved;
  await new Promise(requestAnimationFrame);
  const whenSaved = place.textContent;
  refresh();
  answers[3]("newest");
  await shown("newest");
  answers[2]("overtaken");
  await new Promise(requestAnimationFrame);
  return [whenSaved, place.textContent];
}
"""


def test_a_saved_value_is_shown_although_a_later_request_is_unanswered(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """Otherwise the form closes over the value from before, whenever an event of the stream asks
    for the configuration in that moment. An answer that comes late replaces no newer one."""
    page = open_settings(visit(gateway), "")
    assert page.evaluate(_OVERTAKEN_REQUESTS) == ["saved", "newest"]


def test_prices_are_edited_and_an_earlier_version_is_restored(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway, viewport=PHONE, color_scheme="dark")
    page = open_settings(visitor, "/prices")
    before = ControlClient(gateway.paths).get("/config")["number"]
    page.get_by_role("button", name="Add a model").click()
    page.get_by_label("Model", exact=True).fill("claude-4.5*")
    page.get_by_label("Input", exact=True).fill("3")
    page.get_by_role("button", name="Save").click()
    page.locator(".changing [role=alert]", has_text="output is missing").wait_for()
    assert serious_violations(page) == []
    page.get_by_label("Output", exact=True).fill("15.5")
    page.get_by_role("button", name="Save").click()
    page.get_by_label("Change the price of claude-4.5*").wait_for()
    assert read_config(gateway)["prices"]["claude-4.5*"] == {"input": 3, "output": 15.5}
    page.get_by_label("Remove the price of gpt-4.1").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_label("Change the price of gpt-4.1").wait_for(state="detached")
    assert list(read_config(gateway)["prices"]) == ["claude-4.5*"]

    page.get_by_role("link", name="History").click()
    page.get_by_role("table").get_by_role("link", name=str(before), exact=True).click()
    page.get_by_role("link", name="Compare with the active one").click()
    page.locator(".diff .added", has_text="[prices").first.wait_for()
    page.get_by_role("button", name="Roll back…").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    page.get_by_role("heading", name=f"Configuration {before + 3}").wait_for()
    assert list(read_config(gateway)["prices"]) == ["gpt-4.1"]

    # A file broken by hand is reported with the line, and the active configuration stays.
    broken = (gateway.home / "holdfast.toml").read_text() + "\n[gatewy]\n"
    (gateway.home / "holdfast.toml").write_text(broken)
    with pytest.raises(GatewayRefused, match="gatewy"):
        ControlClient(gateway.paths).post("/config/reload")
    page.get_by_text("nearest:  did you mean `gateway`?").wait_for()
    assert serious_violations(page) == []


def test_a_token_is_created_shown_once_and_revoked(gateway: SpawnedGateway, visit: Visit) -> None:
    page = open_settings(visit(gateway), "/tokens")
    page.get_by_role("button", name="Create a token").click()
    page.get_by_role("textbox", name="Name").fill("phone")
    page.get_by_label("Scope").select_option("sessions")
    page.get_by_label("Sessions, separated by commas").fill("a, b")
    assert serious_violations(page) == []
    page.get_by_role("button", name="Create", exact=True).click()
    token = page.get_by_role("status").locator("code").inner_text()
    (made,) = ControlClient(gateway.paths).get("/tokens")["tokens"]
    assert (made["name"], made["scope"], made["sessions"]) == ("phone", "sessions", ["a", "b"])
    assert made["expires_at"] is not None and token.startswith("hft_")
    page.get_by_role("button", name="Create a token").click()
    page.get_by_role("textbox", name="Name").fill("phone")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("alert").filter(has_text="already a token").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.reload()
    page.get_by_role("cell", name="phone", exact=True).wait_for()
    assert token not in page.content()
    page.get_by_role("button", name="Revoke the token phone").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_role("cell", name="phone", exact=True).wait_for(state="detached")
    assert ControlClient(gateway.paths).get("/tokens")["tokens"] == []
