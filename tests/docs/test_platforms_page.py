"""docs/platforms.md: every platform has a page, and the overview pages link to it."""

import pytest
from tests.support.doc_pages import REPO, Pages

from holdfast.config.platforms import BUILT_IN_PLUGINS, find_plugin

OUTSIDE = [
    name
    for name in BUILT_IN_PLUGINS
    if (platform := find_plugin(name)) is not None and platform.open
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_every_platform_has_a_page_that_the_readme_links(page: Pages, name: str) -> None:
    assert (REPO / "docs" / f"{name}.md").is_file()
    assert f"docs/{name}.md" in page("README.md").text
    assert f"[platforms.{name}]" in page("examples/holdfast.toml").text


@pytest.mark.parametrize("name", [name for name in OUTSIDE if name != "simulated"])
def test_every_platform_is_named_on_the_platforms_page(page: Pages, name: str) -> None:
    assert f"({name}.md)" in page("docs/platforms.md").text
    assert f"(docs/{name}.md)" in page("CHANGELOG.md").text
