"""Memory on the page: notes are added, changed and removed, and memory is turned off."""

from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway


def test_notes_are_written_changed_and_forgotten_on_the_page(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("[text hello]")
    visitor.page.get_by_role("button", name="Memory", exact=True).click()
    panel = visitor.page.get_by_role("complementary", name="Memory")
    panel.get_by_label("New note").fill("likes <b>tea</b> & <img src=x onerror=alert(1)>")
    panel.get_by_role("button", name="Add").click()
    note = panel.locator(".notes li")
    note.wait_for()
    assert "likes <b>tea</b> &" in note.inner_text(), "a note is text, whatever stands in it"
    assert panel.get_by_label("New note").input_value() == ""

    panel.get_by_label("Edit note 1").click()
    panel.get_by_label("Note 1", exact=True).fill("likes coffee")
    panel.get_by_role("button", name="Save").click()
    panel.get_by_text("likes coffee").wait_for()

    panel.get_by_label("Delete note 1").click()
    dialog = visitor.page.get_by_role("dialog")
    assert "likes coffee" in dialog.inner_text()
    dialog.get_by_role("button", name="Delete").click()
    note.wait_for(state="detached")


def test_memory_is_turned_off_and_on_on_the_page(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("[text hello]")
    visitor.page.get_by_role("button", name="Memory", exact=True).click()
    panel = visitor.page.get_by_role("complementary", name="Memory")
    panel.get_by_role("button", name="Turn off").click()
    panel.get_by_text("Memory is off").wait_for()
    assert panel.get_by_label("New note").count() == 0
    panel.get_by_role("button", name="Turn on").click()
    panel.get_by_label("New note").wait_for()


def test_a_note_that_cannot_be_saved_is_reported(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("[text hello]")
    visitor.page.get_by_role("button", name="Memory", exact=True).click()
    panel = visitor.page.get_by_role("complementary", name="Memory")
    field = panel.get_by_label("New note")
    for number in range(4):
        field.fill(f"{number} " + "x" * 900)
        panel.get_by_role("button", name="Add").click()
        panel.get_by_text(f"{number} xxx").wait_for()
    field.fill("4 " + "x" * 900)
    panel.get_by_role("button", name="Add").click()
    assert "full" in panel.get_by_role("alert").inner_text()
    assert field.input_value().startswith("4 "), "what was written is still there"
