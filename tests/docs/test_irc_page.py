"""docs/irc.md: each file on it loads as it stands."""

from pathlib import Path

from tests.support.doc_pages import Pages
from tests.support.platform_gateway import write_config

from holdfast.config import load
from holdfast.platforms.irc.plugin import IrcSettings


def test_every_file_on_the_page_loads(page: Pages, tmp_path: Path) -> None:
    files = [each.text for each in page("docs/irc.md").blocks if each.language == "toml"]
    assert len(files) >= 4
    for number, text in enumerate(files):
        home = write_config(tmp_path / str(number), text)
        environ = {"IRC_PASSWORD": "correct-horse", "OPS_KEY": "sesame"}
        assert isinstance(load(home, environ).settings.platforms["irc"], IrcSettings)
