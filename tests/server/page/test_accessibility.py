"""Accessibility of the page: no serious violation in any view and theme, and all by keyboard."""

from collections.abc import Callable

import pytest
from tests.server.page import showcase
from tests.server.page.accessibility import (
    DESKTOP,
    PHONE,
    serious_violations,
    serious_violations_in_both_themes,
)
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway


@pytest.fixture(scope="module")
def chat(gateway: SpawnedGateway) -> Callable[[Visitor], str]:
    """Returns the id of the newest chat of the showcase, which the first visitor imports."""
    made: list[str] = []

    def ensure(visitor: Visitor) -> str:
        if not made:
            for body in showcase.import_bodies():
                answer = visitor.fetch("POST", "/api/v1/sessions/import", data=body)
                made[:] = [str(answer.json()["id"])]
        return made[0]

    return ensure


@pytest.mark.timeout(120)
def test_axe_finds_nothing_serious_on_any_view(
    gateway: SpawnedGateway, visit: Visit, chat: Callable[[Visitor], str]
) -> None:
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    page.locator(".welcome").wait_for()
    assert serious_violations_in_both_themes(page) == []
    visitor.message_box.fill("/")
    page.locator(".commands").wait_for()
    assert serious_violations_in_both_themes(page) == []
    visitor.message_box.fill("")

    visitor.open_chat(chat(visitor))
    visitor.replies.first.wait_for()
    page.locator(".chat-link").nth(3).wait_for()
    for fold in page.locator("summary").all():
        fold.click()
    assert serious_violations_in_both_themes(page) == []
    page.get_by_role("button", name="Files").first.click()
    page.locator(".panel .quiet-text").wait_for()
    assert serious_violations_in_both_themes(page) == []
    page.get_by_role("button", name="More").click()
    page.get_by_role("menu").wait_for()
    assert serious_violations_in_both_themes(page) == []
    page.get_by_role("menuitem", name="Delete").click()
    page.locator("dialog").wait_for()
    assert serious_violations_in_both_themes(page) == []
    page.keyboard.press("Escape")
    page.get_by_label("Search chats and messages").fill("disk")
    page.locator(".search-result").first.wait_for()
    assert serious_violations_in_both_themes(page) == []


def test_axe_finds_nothing_serious_while_a_turn_runs_or_on_the_login_form(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    visitor.send(f"[delay 1] [reasoning hm] [text {'words that come one by one ' * 9}]")
    page.locator(".reply.live .prose").wait_for()
    modes = page.get_by_role("button", name="What sending does")
    modes.click()
    page.get_by_role("menuitemradio", name="Queue").click()
    visitor.send("one more thing")
    visitor.waiting_messages.wait_for()
    modes.click()
    page.get_by_role("menu").wait_for()
    assert serious_violations_in_both_themes(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Stop").click()  # else the list of chats moves for the others
    visitor.until_idle()
    logged_out = visit(gateway, login=False, viewport=DESKTOP)
    logged_out.page.locator(".login").wait_for()
    assert serious_violations_in_both_themes(logged_out.page) == []


def test_the_theme_is_chosen_and_remembered(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway, color_scheme="light")
    page = visitor.page
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="Theme: light").click()
    page.get_by_role("button", name="Theme: dark").wait_for()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    visitor.message_box.wait_for()
    assert page.evaluate(background) == dark


def test_a_phone_shows_one_thing_at_a_time(
    gateway: SpawnedGateway, visit: Visit, chat: Callable[[Visitor], str]
) -> None:
    visitor = visit(gateway, color_scheme="light", viewport=PHONE, has_touch=True, is_mobile=True)
    page = visitor.page
    visitor.open_chat(chat(visitor))
    visitor.replies.first.wait_for()
    assert not page.locator(".sidebar").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious_violations(page) == []
    page.get_by_role("button", name="Open the list of chats").tap()
    page.locator(".sidebar.open .chat-link").first.wait_for()
    assert serious_violations(page) == []
    page.get_by_role("link", name=showcase.TITLES[1]).tap()
    page.locator(".sidebar").wait_for(state="hidden")
    page.get_by_role("heading", name=showcase.TITLES[1]).wait_for()


def test_a_phone_has_the_panels_in_a_menu_and_room_for_the_title(
    gateway: SpawnedGateway, visit: Visit, chat: Callable[[Visitor], str]
) -> None:
    visitor = visit(gateway, viewport=PHONE, has_touch=True, is_mobile=True)
    page = visitor.page
    visitor.open_chat(chat(visitor))
    visitor.replies.first.wait_for()
    title = page.get_by_role("heading", name=showcase.TITLES[0])
    assert title.evaluate("node => node.scrollWidth <= node.clientWidth")
    for name in ("Files", "Processes", "Memory", "People"):
        page.get_by_role("button", name="More").tap()
        page.get_by_role("menuitem", name=name).tap()
        page.get_by_role("complementary", name=name).wait_for()
        page.get_by_role("button", name="Close the panel").tap()
        page.get_by_role("complementary", name=name).wait_for(state="detached")


def test_quick_keys_keep_the_focus_where_they_took_it(
    gateway: SpawnedGateway, visit: Visit, chat: Callable[[Visitor], str]
) -> None:
    """A new chat, the search and the first of the list, faster than a frame is drawn."""
    visitor = visit(gateway, viewport=DESKTOP)
    visitor.open_chat(chat(visitor))
    visitor.replies.first.wait_for()
    visitor.page.locator(".chat-link").first.wait_for()  # the list is loaded apart from the chat
    focused = visitor.page.evaluate(
        """async () => {
          const press = (init) => document.activeElement.dispatchEvent(
            new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...init }));
          const shown = new Promise((resolve) => {
            const seen = () => document.querySelector(".welcome") && resolve();
            new MutationObserver(seen).observe(document.body, { childList: true, subtree: true });
          });
          press({ altKey: true, code: "KeyN", key: "n" });
          await shown;
          press({ ctrlKey: true, key: "k" });
          press({ key: "ArrowDown" });
          await new Promise((resolve) => setTimeout(resolve, 400));
          return document.activeElement.className;
        }"""
    )
    assert focused == "chat-link"


def test_everything_can_be_done_by_keyboard(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway, viewport=DESKTOP)
    page, keys = visitor.page, visitor.page.keyboard
    assert visitor.message_box.evaluate("node => node === document.activeElement")
    keys.type("first line")
    keys.press("Shift+Enter")
    keys.type("second line")
    keys.press("Enter")
    visitor.user_messages.first.wait_for()
    visitor.until_idle()
    assert visitor.user_messages.locator(".message-text").inner_text() == "first line\nsecond line"

    keys.press("Alt+n")
    page.locator(".welcome").wait_for()
    keys.press("Control+k")
    assert page.get_by_label("Search chats and messages").evaluate(
        "node => node === document.activeElement"
    )
    keys.press("ArrowDown")
    assert page.locator(".chat-link").first.evaluate("node => node === document.activeElement")
    keys.press("ArrowDown")
    keys.press("ArrowUp")
    keys.press("Enter")
    visitor.user_messages.first.wait_for()

    page.locator(".brand").focus()
    reached = []
    for _ in range(60):
        keys.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  const node = document.activeElement;
                  if (node === document.body) return ["", true]; // the browser's own buttons
                  const style = getComputedStyle(node);
                  const box = node.closest(".box, .search");
                  const seen = style.outlineStyle !== "none" || box !== null;
                  return [node.getAttribute("aria-label") ?? node.innerText ?? "", seen];
                }"""
            )
        )
    names = " ".join(name for name, _ in reached)
    for control in ("New chat", "Files", "Processes", "More", "Theme", "Message", "Attach files"):
        assert control in names
    assert [name for name, seen in reached if not seen] == []


def test_a_menu_is_walked_and_left_by_keyboard(
    gateway: SpawnedGateway, visit: Visit, chat: Callable[[Visitor], str]
) -> None:
    visitor = visit(gateway, viewport=DESKTOP)
    page, keys = visitor.page, visitor.page.keyboard
    visitor.open_chat(chat(visitor))
    visitor.replies.first.wait_for()
    more = page.get_by_role("button", name="More")
    more.focus()
    keys.press("Enter")
    page.get_by_role("menu").wait_for()
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    assert page.evaluate("document.activeElement.innerText.trim()") == "Delete"
    keys.press("Escape")
    assert page.get_by_role("menu").count() == 0
    assert more.evaluate("node => node === document.activeElement")


def test_a_screen_reader_gets_each_reply_once_and_whole(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    page.evaluate(
        """() => {
          window.announced = [];
          const region = document.querySelector("[role=status][aria-live]");
          new MutationObserver(() => window.announced.push(region.textContent))
            .observe(region, { childList: true, characterData: true, subtree: true });
        }"""
    )
    words = "one two three four five six seven eight nine ten eleven twelve"
    visitor.send_and_wait(f"[delay 0.05] [text {words}]")
    page.wait_for_function("window.announced.length > 0")
    assert page.evaluate("window.announced") == [words]
    assert page.locator(".column [aria-live]:not(.copy span)").count() == 0
