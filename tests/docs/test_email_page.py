"""docs/email.md: each file on it loads as it stands."""

from pathlib import Path

from tests.support.doc_pages import Pages
from tests.support.platform_gateway import write_config

from holdfast.config import load
from holdfast.platforms.email.plugin import EmailSettings


def test_every_file_on_the_page_loads(page: Pages, tmp_path: Path) -> None:
    files = [each.text for each in page("docs/email.md").blocks if each.language == "toml"]
    assert len(files) >= 2
    environ = {
        "EMAIL_PASSWORD": "correct-horse",
        "WORK_PASSWORD": "battery-staple",
        "EMAIL_REFRESH_TOKEN": "r0",
    }
    for number, text in enumerate(files):
        home = write_config(tmp_path / str(number), text)
        assert isinstance(load(home, environ).settings.platforms["email"], EmailSettings)
