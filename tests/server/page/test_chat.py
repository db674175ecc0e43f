"""A chat in a browser: messages, streamed replies, steps, files, and the same after a reload."""

import json
from pathlib import Path

from tests.server.page.held_turn import HeldTurn
from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway

# Records the text of the live reply each time it is drawn.
GROWING = """() => {
  window.grown = [];
  const look = () => {
    const live = document.querySelector(".reply.live .prose");
    if (live) window.grown.push(live.textContent);
  };
  const changes = { childList: true, characterData: true, subtree: true };
  new MutationObserver(look).observe(document.body, changes);
}"""


def test_a_login_link_works_once_and_the_browser_stays_logged_in(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    link = visitor.login_link()
    visitor.page.goto(link)
    visitor.message_box.wait_for()
    assert visitor.page.url == f"{gateway.address}/"
    visitor.page.reload()
    visitor.message_box.wait_for()
    logged_out = visit(gateway, login=False)
    answer = logged_out.context.request.get(link)
    assert answer.status == 403


def test_a_logged_out_browser_shows_how_to_log_in_and_nothing_else(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway, login=False)
    visitor.page.get_by_text("holdfast link").first.wait_for()
    assert visitor.page.locator(".sidebar, .composer").count() == 0


def test_an_answer_streams_and_a_reload_shows_the_same(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.page.evaluate(GROWING)
    visitor.send_and_wait("[delay 0.2] [text one two three four five six seven eight nine ten]")
    grown = visitor.page.evaluate("window.grown")
    assert any("one" in text and "ten" not in text for text in grown)
    shown = visitor.page.locator(".column").inner_text()
    assert shown.count("one two three four five six seven eight nine ten") == 2  # asked, answered
    visitor.page.reload()
    visitor.replies.first.wait_for()
    assert visitor.page.locator(".column").inner_text() == shown


def test_a_retry_of_the_model_is_shown_with_its_cause_and_survives_a_reload(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.new_chat()
    visitor.send("[status 503 30] [times 1] [text never]")
    waiting = visitor.page.locator(".reply.live .thinking")
    retrying = visitor.page.get_by_text("The model is overloaded; retrying in 3")
    retrying.wait_for()
    assert waiting.count() == 1
    visitor.page.reload()
    retrying.wait_for()
    visitor.page.get_by_role("button", name="Stop").click()
    retrying.wait_for(state="detached")


def test_a_tool_step_is_one_line_that_unfolds_to_its_input_and_output(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    command = json.dumps({"command": "printf 'kelp %s\\n' holds; false"})
    visitor.send_and_wait(f"[text I look.] [tool terminal {command}] [then] [text seen]")
    step = visitor.page.locator(".step")
    assert step.locator(".name").inner_text() == "terminal"
    assert step.locator(".step-details").count() == 0
    step.locator("summary").click()
    output = step.locator(".output code")
    output.wait_for()
    assert "kelp holds" in output.inner_text()
    assert "printf" in step.locator(".step-details .code").first.inner_text()
    step.locator("summary").click()
    step.locator(".step-details").wait_for(state="detached")


def test_a_command_that_exits_non_zero_is_shown_as_failed_with_its_code(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """In the chat, in the timeline of its turn and in the audit log."""
    visitor = visit(gateway)
    visitor.send_and_wait('[tool terminal {"command": "exit 3"}] [then] [text seen]')
    step = visitor.page.locator(".step.bad")
    assert step.locator(".exit-code").inner_text() == "exit code 3"
    assert step.locator(".outcome").inner_text() == "failed, exit code 3"
    session = visitor.page.url.rpartition("/")[2]
    (row,) = visitor.fetch("GET", f"/api/v1/audit?session={session}").json()["rows"]
    visitor.page.goto(f"{gateway.address}/#/turns/{row['turn_id']}")
    line = visitor.page.locator(".span-row.bad").filter(has_text="terminal")
    line.wait_for()
    assert "failed; exit code 3" in line.text_content()
    visitor.page.goto(f"{gateway.address}/#/audit/session={session}")
    cell = visitor.page.locator("td").filter(has=visitor.page.locator(".badge.bad"))
    cell.get_by_text("exit code 3").wait_for()


def test_choosing_several_files_attaches_all_of_them(
    gateway: SpawnedGateway, visit: Visit, tmp_path: Path
) -> None:
    """The list of a file input is emptied while the files are still being read."""
    visitor = visit(gateway)
    files = [tmp_path / name for name in ("one.txt", "two.txt", "three.txt")]
    for file in files:
        file.write_text(f"inside {file.name}")
    visitor.page.locator("input[type=file]").set_input_files(files)
    names = visitor.page.locator(".attachments .filename")
    names.nth(2).wait_for()
    assert names.all_inner_texts() == [file.name for file in files]
    visitor.send_and_wait("[text three of them]")
    shown = visitor.user_messages.first.inner_text()
    assert all(file.name in shown for file in files)


def test_a_running_step_shows_what_it_has_written_so_far(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    held = HeldTurn(gateway, "shown")
    visitor.send(held.prompt(first="echo first", last="echo second", answer="over"))
    step = visitor.page.locator(".step.running")
    step.locator("summary").click()
    step.locator(".output").get_by_text("first").wait_for()
    assert "second" not in step.locator(".output").inner_text()
    held.release()
    visitor.until_idle()
    done = visitor.page.locator(".step .output")
    done.get_by_text("second").wait_for()


def test_reasoning_is_folded_away(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("[reasoning first this and then that] [text so it is]")
    thoughts = visitor.page.locator(".reasoning")
    assert "first this" not in thoughts.inner_text()
    thoughts.locator("summary").click()
    thoughts.get_by_text("first this and then that").wait_for()


def test_a_command_is_completed_and_its_answer_shown(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("hello there")
    visitor.message_box.press_sequentially("/sta")
    visitor.page.get_by_role("option", name="/status").wait_for()
    visitor.message_box.press("Tab")
    assert visitor.message_box.input_value() == "/status "
    visitor.message_box.press("Enter")
    answer = visitor.page.locator(".answer")
    answer.get_by_text("Session").wait_for()
    visitor.waiting_messages.first.wait_for(state="hidden")


def test_a_failed_turn_says_why_then_and_after_a_reload(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send("[status 400]")
    failed = visitor.page.locator(".turn-end.failed")
    failed.wait_for()
    assert len(failed.inner_text()) > len("This turn failed.")
    visitor.page.reload()
    failed.wait_for()
    assert visitor.page.locator(".answer").count() == 0


def test_a_failed_turn_can_be_retried_and_only_the_last_one(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send("[status 400]")
    failed = visitor.page.locator(".turn-end.failed")
    retry = failed.get_by_role("button", name="Try again")
    retry.wait_for()
    before = len(gateway.model_requests("[status 400]"))
    retry.click()
    visitor.page.get_by_label("Undone", exact=True).wait_for()
    visitor.page.locator(".chunk > .turn-end.failed").get_by_role("button").wait_for()
    assert len(gateway.model_requests("[status 400]")) > before
    visitor.send_and_wait("something else")
    assert failed.count() == 2
    assert retry.count() == 0


def test_attached_files_are_shown_as_files_and_not_as_text(
    gateway: SpawnedGateway, visit: Visit, tmp_path: Path
) -> None:
    """Also in the title of a chat that begins with them."""
    visitor = visit(gateway)
    page = visitor.page
    file = tmp_path / "tide table.txt"
    file.write_text("high at noon")
    page.locator("input[type=file]").set_input_files([file])
    page.locator(".attachments .filename").wait_for()
    page.get_by_role("button", name="Send", exact=True).click()
    shown = visitor.user_messages.locator(".attached")
    shown.get_by_text("tide table.txt", exact=True).wait_for()
    visitor.until_idle()
    assert visitor.user_texts() == []
    assert page.get_by_role("heading", level=1).inner_text() == "tide table.txt"
    with page.expect_download() as download:
        shown.get_by_role("link").click()
    assert Path(download.value.path()).read_text() == "high at noon"
    visitor.send_and_wait("[text so it is]")
    page.reload()
    shown.wait_for()
    for place in (".user-message", ".sidebar", ".head"):
        assert "Attached, in" not in page.locator(place).first.inner_text()


def test_the_side_panel_can_be_closed_at_every_width(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    page = visitor.page
    visitor.send_and_wait("[text panel]")
    page.get_by_role("button", name="Files").first.click()
    close = page.get_by_role("button", name="Close the panel")
    for width in (1400, 1120, 1000, 390):
        visitor.set_screen(viewport={"width": width, "height": 800})
        box = close.bounding_box()
        assert box is not None
        assert box["x"] >= 0, width
        assert box["x"] + box["width"] <= width, width
        for name in ("Files", "People"):
            tab = page.locator(".panel .tabs").get_by_role("button", name=name).bounding_box()
            assert tab is not None
            assert tab["x"] + tab["width"] <= box["x"] + 1, (name, width)
    close.click()
    close.wait_for(state="detached")


def test_a_chat_is_renamed_exported_and_deleted(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    page = visitor.page
    visitor.send_and_wait("a chat that goes away")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Title").fill("Short-lived")
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("heading", name="Short-lived").wait_for()
    page.get_by_role("link", name="Short-lived").wait_for()

    page.get_by_role("button", name="More").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert json.loads(lines[0])["title"] == "Short-lived"
    assert json.loads(lines[1])["message"]["text"] == "a chat that goes away"

    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Delete").click()
    page.locator(".welcome").wait_for()
    assert page.get_by_role("link", name="Short-lived").count() == 0


def test_search_finds_words_and_opens_the_message_that_has_them(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    visitor.send_and_wait("the word of the day is bladderwrack")
    visitor.new_chat()
    page.keyboard.press("Control+k")
    page.keyboard.type("bladderwrack")
    place = page.locator(".search-result").first
    place.wait_for()
    place.click()
    page.locator("[data-seq].search-target").wait_for()
    assert "bladderwrack" in page.locator(".search-target").inner_text()


def test_files_are_uploaded_and_downloaded(
    gateway: SpawnedGateway, visit: Visit, tmp_path: Path
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    note = tmp_path / "notes from the shore.txt"
    note.write_text("salt and stone")
    page.locator("input[type=file]").set_input_files(note)
    page.locator(".attachments").get_by_text("notes from the shore.txt").wait_for()
    visitor.send_and_wait("keep this")
    assert visitor.user_messages.count() == 1
    page.get_by_role("button", name="Files").first.click()
    file = page.locator(".files a")
    file.wait_for()
    with page.expect_download() as download:
        file.click()
    assert Path(download.value.path()).read_text() == "salt and stone"
    assert download.value.suggested_filename == "notes from the shore.txt"


def test_a_picture_can_be_pasted_and_is_shown_in_the_transcript(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    visitor.message_box.focus()
    page.evaluate(
        """async () => {
          const canvas = document.createElement("canvas");
          canvas.width = canvas.height = 4;
          const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
          const data = new DataTransfer();
          data.items.add(new File([blob], "dot.png", { type: "image/png" }));
          const paste = new ClipboardEvent("paste", { clipboardData: data, bubbles: true });
          document.activeElement.dispatchEvent(paste);
        }"""
    )
    page.locator(".attachments img").wait_for()
    visitor.send_and_wait("what is this")
    width = page.locator(".user-message img").evaluate(
        "image => image.decode().then(() => image.naturalWidth)"
    )
    assert width == 4


def test_a_background_process_is_listed_read_and_ended(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    call = json.dumps({"action": "start", "command": "echo grip; sleep 300"})
    visitor.send_and_wait(f"[tool process {call}] [then] [text it runs]")
    page.get_by_role("button", name="Processes").first.click()
    process = page.locator(".processes li")
    process.locator("summary").click()
    process.get_by_text("grip", exact=True).wait_for()
    process.get_by_role("button", name="End").click()
    page.get_by_role("button", name="End process").click()
    process.locator(".facts").get_by_text("running").wait_for(state="hidden")


def test_two_pages_show_the_same_chat(gateway: SpawnedGateway, visit: Visit) -> None:
    one, other = visit(gateway), visit(gateway)
    one.send_and_wait("said on one page")
    other.page.goto(one.page.url)
    other.replies.first.wait_for()
    other.send_and_wait("said on the other")
    one.replies.nth(1).wait_for()
    one.until_idle()
    shown = one.page.locator(".column").inner_text()
    assert shown == other.page.locator(".column").inner_text()


def test_an_undone_message_is_marked_at_once_and_after_a_reload(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("this stays")
    visitor.send_and_wait("this was a mistake")
    visitor.send("/undo")
    back = visitor.page.get_by_label("Undone", exact=True)
    back.get_by_text("this was a mistake", exact=True).wait_for()
    visitor.page.locator(".answer").get_by_text("Taken back").wait_for()
    visitor.page.reload()
    back.get_by_text("You said: this was a mistake").wait_for()
    assert back.get_by_text("this stays").count() == 0
    assert visitor.user_messages.get_by_text("this stays", exact=True).count() == 1


def test_a_retry_marks_the_old_reply_as_undone(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("once more")
    visitor.send("/retry")
    back = visitor.page.get_by_label("Undone", exact=True)
    back.get_by_text("You said: once more").wait_for()
    visitor.page.locator(".chunk > .reply").get_by_text("You said: once more").wait_for()


def test_the_page_follows_a_command_to_another_session(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """/fork, /resume and /new switch to another session; the page opens it and shows the answer."""
    visitor = visit(gateway)
    visitor.send_and_wait("a fork in the road")
    original = visitor.page.url
    visitor.send("/fork the other way")
    visitor.page.wait_for_url(lambda url: url != original)
    visitor.page.locator(".answer").get_by_text("You are now in a copy").wait_for()
    visitor.send_and_wait("only here")
    visitor.send("/resume")
    visitor.page.wait_for_url(original)
    visitor.page.locator(".answer").get_by_text("Back in").wait_for()
    assert visitor.user_messages.get_by_text("only here").count() == 0
    visitor.send("/new")
    visitor.page.wait_for_url(lambda url: url != original)
    visitor.page.locator(".answer").get_by_text("A new conversation begins.").wait_for()
    assert visitor.user_messages.count() == 0
    visitor.send_and_wait("afresh")


def test_sending_a_message_scrolls_to_its_reply(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("a long one\n" * 60)
    scroller = visitor.page.locator(".scroller")
    scroller.evaluate("node => node.scrollTop = 0")
    visitor.page.get_by_role("button", name="Latest").wait_for()
    visitor.send_and_wait("and now?")
    visitor.page.get_by_role("button", name="Latest").wait_for(state="hidden")
    left = scroller.evaluate("node => node.scrollHeight - node.scrollTop - node.clientHeight")
    assert left < 80


def test_a_chat_that_begins_with_a_command_shows_its_answer(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send("/status")
    visitor.page.locator(".answer").get_by_text("Session:").wait_for()
    visitor.waiting_messages.first.wait_for(state="hidden")
    assert visitor.page.locator(".answer").count() == 1
