"""Every text of the page can be translated: in the pseudo-locale, each is shown as ⟦…⟧."""

import asyncio
import re
import time
from pathlib import Path

import pytest
from tests.server.page import dashboard, showcase
from tests.server.page.accessibility import DESKTOP, PHONE
from tests.server.page.filled_home import LONGEST, fill
from tests.server.page.past_turns import INTERRUPTED, write_turns
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway
from tests.support.simulated_vendor import SimulatedVendor

PSEUDO = "en-XA"

# Texts of users, models, tools, files and the configuration, names and dates: not of the page.
_DATA = ", ".join(
    (
        "code, pre, time, svg text, th[scope=row], option:not([value=''])",
        ".brand, .login h1, kbd, .model, .figure, .platform, .session-link, .clipped, .where",
        # chats
        ".chat-link:not(.view-links *) .title, .head h1, .session-head h2, .bubble, .command-text",
        ".prose:not(.turn-end .prose), .reasoning, .note, .snippet, .filename, .path",
        ".step .name, .step .short, .usage-line span, .facts > span:has(> .platform)",
        ".search-result .title, .sessions .title, .session-head .facts span:nth-child(4)",
        "dialog strong",
        # dashboard
        ".span-row .name, .span-row .short, .span-row .visually-hidden, .accounts h2",
        ".section > summary h2, .origin-and-effect span:first-child, .log-line .level",
        ".log-line .message button, .audit-row, [data-label='⟦What⟧'], [data-label='⟦Outcome⟧']",
        "[data-label='⟦Details⟧'] dl, [data-label='⟦By⟧'], a[download]",
    )
)
_LABELLED_DATA = ", ".join(
    (
        "time, .session-link, .clipped, .where, .model, .keys, .prose a, article.reply",
        "svg[role=slider], .figure, .sent",
    )
)

# The visible texts, and the labels, that are outside of brackets. A sentence with a link in it is
# several nodes, so the depth is counted over all of them, in order.
_UNTRANSLATED = """([data, labelledData]) => {
  const found = [];
  const outside = (text, depth) => {
    let rest = "";
    for (const char of text) {
      if (char === "⟦") depth += 1;
      else if (char === "⟧") depth -= 1;
      else if (depth === 0) rest += char;
    }
    return [rest.trim(), depth];
  };
  let depth = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("noscript, script, style")) continue;
    const [rest, after] = outside(node.data, depth);
    depth = after;
    if (rest && !parent.closest(data)) found.push(`${parent.tagName}.${parent.className}: ${rest}`);
  }
  if (depth) found.push(`${depth} brackets are open`);
  for (const name of ["placeholder", "title", "aria-label", "alt", "data-label"]) {
    for (const node of document.querySelectorAll(`[${name}]`)) {
      const [rest] = outside(node.getAttribute(name), 0);
      if (rest && !node.closest(labelledData)) found.push(`${node.tagName}[${name}]: ${rest}`);
    }
  }
  return found;
}"""
_LETTERS = re.compile(r": .*[^\W\d_]")


def untranslated(visitor: Visitor) -> list[str]:
    found = visitor.page.evaluate(_UNTRANSLATED, [_DATA, _LABELLED_DATA])
    return [each for each in found if _LETTERS.search(each)]


def fits(visitor: Visitor) -> bool:
    """Whether nothing is wider than the screen, also with longer texts."""
    return bool(visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def open_view(visitor: Visitor, view: str) -> None:
    page = visitor.page
    page.goto(f"{visitor.gateway.address}/#/{view}")
    page.locator(".views, .session-head").first.wait_for()
    page.locator(".board .quiet-text", has_text="Loading").first.wait_for(state="detached")


@pytest.fixture(scope="module")
def home(home: Path, vendor: SimulatedVendor) -> Path:
    (home / "holdfast.toml").write_text(dashboard.PRICES + vendor.settings)
    fill(home, sessions=8, steps=4)
    asyncio.run(write_turns(home, now=time.time()))
    asyncio.run(dashboard.write_history(home))
    return home


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_text_of_the_dashboard_is_translated(
    gateway: SpawnedGateway, visit: Visit, viewport: dict[str, int]
) -> None:
    visitor = visit(gateway, locale=PSEUDO, viewport=viewport)
    assert visitor.page.evaluate(
        "[document.documentElement.lang, document.documentElement.dir]"
    ) == [
        PSEUDO,
        "ltr",
    ]
    for view in (*dashboard.VIEWS, f"sessions/{LONGEST}", f"turns/{INTERRUPTED}"):
        open_view(visitor, view)
        assert (view, untranslated(visitor)) == (view, [])
        assert fits(visitor), view


def test_every_text_of_the_chats_is_translated(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway, locale=PSEUDO, viewport=DESKTOP)
    page = visitor.page
    page.locator(".welcome").wait_for()
    assert untranslated(visitor) == []
    for body in showcase.import_bodies():
        made = visitor.fetch("POST", "/api/v1/sessions/import", data=body).json()["id"]
    visitor.open_chat(made)
    visitor.replies.first.wait_for()
    for fold in page.locator("main summary").all():
        fold.click()
    assert untranslated(visitor) == []
    for panel in page.locator(".head button[aria-pressed]").all():
        panel.click()
        page.locator(".panel .quiet-text", has_text="Loading").wait_for(state="detached")
        assert untranslated(visitor) == []
    page.get_by_role("button", name="⟦More⟧").click()
    assert untranslated(visitor) == []
    page.get_by_role("menuitem", name="⟦Delete⟧").click()
    page.locator("dialog").wait_for()
    assert untranslated(visitor) == []


def test_an_error_of_the_gateway_is_in_the_language_of_the_page(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway, locale=PSEUDO)
    answer = visitor.page.evaluate("fetch('/api/v1/turns/none').then((answer) => answer.json())")
    assert answer["error"]["code"] == "not_found"
    assert re.fullmatch("⟦There is no turn 'none'; .*⟧", answer["error"]["message"])


def test_a_catalogue_translates_the_page(gateway: SpawnedGateway, visit: Visit) -> None:
    """With its plural rule, and with dates and numbers of the language."""
    visitor = visit(gateway, locale="de-AT", viewport=DESKTOP)
    page = visitor.page
    texts = {
        "Chats": "Unterhaltungen",
        "{n} session": ["{n} Sitzung", "{n} Sitzungen"],
        "Restarts": "Neustarts",
    }
    catalogue = {"language": "de", "plurals": "10" + "1" * 198, "texts": texts}
    page.route("**/catalogue.json", lambda route: route.fulfill(json=catalogue))
    page.goto(f"{gateway.address}/#/sessions")
    page.reload()
    page.get_by_role("link", name="Unterhaltungen").wait_for()
    page.get_by_text(re.compile(r"^\d+ Sitzungen$")).wait_for(state="attached")
    assert page.evaluate("document.documentElement.lang") == "de"
    page.goto(f"{gateway.address}/#/restarts")
    page.get_by_role("heading", name="Neustarts", level=1).wait_for()
    started = page.locator("[aria-labelledby=now] time").inner_text()
    assert re.fullmatch(r"\d+\.\d+\.\d{4}, \d\d:\d\d", started), "as Austrians write it"
