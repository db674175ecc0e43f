"""docs/telegram.md: each file on it loads as it stands."""

from pathlib import Path

from tests.support.doc_pages import Pages

from holdfast.config import load
from holdfast.platforms.telegram.plugin import TelegramSettings
from holdfast.platforms.telegram.receiver import webhook_path


def test_every_file_on_the_page_loads(page: Pages, tmp_path: Path) -> None:
    files = [each.text for each in page("docs/telegram.md").blocks if each.language == "toml"]
    environ = {"TELEGRAM_BOT_TOKEN": "123456:one", "WORK_BOT_TOKEN": "123457:two"}
    assert len(files) >= 5
    for number, text in enumerate(files):
        home = tmp_path / str(number)
        home.mkdir(mode=0o700)
        (home / "holdfast.toml").write_text(text)
        settings = load(home, environ).settings.platforms.get("telegram")
        assert settings is None or isinstance(settings, TelegramSettings)


def test_the_page_names_the_path_that_is_posted_to(page: Pages) -> None:
    assert f"https://bot.example.org{webhook_path('default')}" in page("docs/telegram.md").text
