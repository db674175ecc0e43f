"""docs/xmpp.md: each file on it loads as it stands."""

from pathlib import Path

from tests.support.doc_pages import Pages

from holdfast.config import load
from holdfast.platforms.xmpp.plugin import XmppSettings


def test_every_file_on_the_page_loads(page: Pages, tmp_path: Path) -> None:
    files = [each.text for each in page("docs/xmpp.md").blocks if each.language == "toml"]
    assert len(files) >= 3
    for number, text in enumerate(files):
        home = tmp_path / str(number)
        home.mkdir(mode=0o700)
        (home / "holdfast.toml").write_text(text)
        settings = load(home, {"XMPP_PASSWORD": "correct-horse"}).settings.platforms["xmpp"]
        assert isinstance(settings, XmppSettings)
