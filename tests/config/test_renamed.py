"""Keys and values that have a new name: the check names it, saved configurations are migrated."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.config import Config, ConfigError, load
from holdfast.config.editor import replace_file
from holdfast.config.keys import find_key
from holdfast.config.renamed import migrate_text

Check = Callable[[str], Config]
_MATRIX = '[platforms.matrix]\nhomeserver = "https://m.example"\n'
_WORK = '[platforms.email.accounts.work]\naddress = "a@b.example"\n'


@pytest.mark.parametrize(
    ("toml", "key", "new"),
    [
        ('[model]\nsight = "no"\n', "model.sight", "`vision` instead of `sight`"),
        (
            f"{_MATRIX}receipts = false\n",
            "platforms.matrix.receipts",
            "`read_receipts` instead of `receipts`",
        ),
        (
            '[platforms.irc]\npeople = "nicks"\n',
            "platforms.irc.people",
            "`identify_by` instead of `people`",
        ),
        (
            f"{_WORK}hourly = 3\n",
            "platforms.email.accounts.work.hourly",
            "`hourly_limit` instead of `hourly`",
        ),
        (
            '[platforms.telegram.chats."-100"]\nanswers = "meant"\n',
            "platforms.telegram.chats.-100.answers",
            'write answers = "addressed"',
        ),
        ('[runner]\nnetwork = "full"\n', "runner.network", 'write network = "host"'),
        ('[runner]\nsandbox = "auto"\n', "runner.sandbox", 'write sandbox = "required"'),
    ],
)
def test_an_old_name_is_refused_with_the_new_one(
    tmp_path: Path, toml: str, key: str, new: str
) -> None:
    (tmp_path / "holdfast.toml").write_text(toml)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {"T": "token"})
    assert key in str(caught.value)
    assert f", line {toml.count(chr(10))}: " in str(caught.value)
    assert new in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("HOLDFAST_MODEL_SIGHT", "HOLDFAST_MODEL_VISION"),
        ("HOLDFAST_PLATFORMS_EMAIL_HOURLY", "HOLDFAST_PLATFORMS_EMAIL_HOURLY_LIMIT"),
        (
            "HOLDFAST_PLATFORMS_EMAIL_ACCOUNTS_WORK_HOURLY",
            "HOLDFAST_PLATFORMS_EMAIL_ACCOUNTS_WORK_HOURLY_LIMIT",
        ),
    ],
)
def test_an_old_variable_is_refused_with_the_new_one(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=f"environment variable {old}: .* called {new} now"):
        load(tmp_path, {old: "3"})


@pytest.mark.parametrize(
    ("old", "new"),
    [("model.sight", "model.vision"), ("platforms.irc.people", "platforms.irc.identify_by")],
)
def test_a_key_that_is_asked_for_by_its_old_name_is_named_by_its_new_one(
    old: str, new: str
) -> None:
    with pytest.raises(ConfigError, match=f"is called {new} now"):
        find_key(old)


def test_a_saved_text_is_migrated_and_keeps_its_comments() -> None:
    saved = """\
# mine
model.sight = "no"      # it cannot see

[platforms.matrix]
receipts = false
home = "receipts = true"
[platforms.irc.accounts.other]
"people" = 'nicks'
[platforms.email]
hourly = 3 # hourly
[platforms.telegram.chats]
"-100".answers = "meant"
[platforms.simulated.chats.meant]
answers = 'meant'
"""
    assert (
        migrate_text(saved)
        == """\
# mine
model.vision = "no"      # it cannot see

[platforms.matrix]
read_receipts = false
home = "receipts = true"
[platforms.irc.accounts.other]
"identify_by" = 'nicks'
[platforms.email]
hourly_limit = 3 # hourly
[platforms.telegram.chats]
"-100".answers = "addressed"
[platforms.simulated.chats.meant]
answers = 'addressed'
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[gateway]\nport = 1\n",
        "this is not TOML",
        '[model]\nsight = "no"\nvision = "yes"\n',  # both: only a person can decide
        'model = { sight = "no" }\n',
        '[auxiliary]\nnote = """\n[model]\nsight = 1\n"""\n',
    ],
)
def test_a_text_without_old_names_or_that_cannot_be_edited_by_line_stays(text: str) -> None:
    assert migrate_text(text) == text


def test_a_saved_configuration_is_rolled_back_to_under_its_new_names(tmp_path: Path) -> None:
    edit = replace_file(
        tmp_path, '[model]\nprovider = "demo"\nsight = "no"\n', check=checker(tmp_path)
    )
    edit.write()
    assert (tmp_path / "holdfast.toml").read_text() == '[model]\nprovider = "demo"\nvision = "no"\n'
    assert load(tmp_path, {}).settings.model.vision == "no"


def test_a_saved_configuration_that_cannot_be_migrated_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="`vision` instead of `sight`"):
        replace_file(tmp_path, 'model = { sight = "no" }\n', check=checker(tmp_path))
    assert not (tmp_path / "holdfast.toml").exists()


def checker(home: Path) -> Check:
    return lambda text: load(home, {}, text=text)
