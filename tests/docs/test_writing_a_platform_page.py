"""docs/writing-a-platform.md: its code is that of the example, and its tables are complete."""

import tomllib

from tests.support.doc_pages import REPO, Pages

from holdfast.config.platforms import PLUGIN_ENTRY_POINTS
from holdfast.core.ports.capabilities import Capabilities
from holdfast.testing.conformance import PlatformHarness, VendorFault

PAGE = "docs/writing-a-platform.md"
EXAMPLE = REPO / "examples" / "linechat"


def test_every_piece_of_code_on_the_page_is_in_the_example(page: Pages) -> None:
    """Which is installed, run and put to the suite by its own tests."""
    pieces = [each.text for each in page(PAGE).blocks if each.language == "python"]
    assert len(pieces) >= 5
    for piece in pieces:
        path, _, code = piece.removeprefix("# ").partition("\n")
        assert code in (EXAMPLE / path).read_text(), f"{path} is another by now"


def test_the_files_on_the_page_are_those_of_the_example(page: Pages) -> None:
    files = [tomllib.loads(each.text) for each in page(PAGE).blocks if each.language == "toml"]
    project, settings = files
    real = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    assert project["project"].items() <= real.items()
    assert list(project["project"]["entry-points"]) == [PLUGIN_ENTRY_POINTS]
    assert list(settings["platforms"]) == list(real["entry-points"][PLUGIN_ENTRY_POINTS])


def test_the_page_names_all_capabilities_and_all_context_methods(page: Pages) -> None:
    text = page(PAGE).text
    left = {"fetchable", "busy_notices", "restart_notices", "group_edit_interval"}
    declared = set(Capabilities.__struct_fields__) - left
    asked = {name for name in vars(PlatformHarness) if not name.startswith("_")}
    asked -= {"has_connection", "shows_replies"}
    expected = {*declared, *asked, *(each.name for each in VendorFault)}
    missing = {name for name in expected if f"`{name}" not in text}
    assert missing == set()
