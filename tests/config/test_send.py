"""`[send]`: the chats that are accepted, and the error for a wrong one."""

from pathlib import Path

import pytest

from holdfast.config import ConfigError, load


def test_chats_and_whole_platforms_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[send]\nallow = ["telegram:-10012", "slack:*"]\n')
    assert load(tmp_path, {}).settings.send.allow == ("telegram:-10012", "slack:*")


@pytest.mark.parametrize(
    ("name", "message"),
    [("telegram", "names no chat"), ("telegram: ", "names no chat"), ("icq:1", "icq")],
)
def test_a_chat_that_could_not_be_sent_to_is_refused(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[send]\nallow = ["slack:*", "{name}"]\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {})
    assert "send.allow[1]" in str(caught.value) and message in str(caught.value)
