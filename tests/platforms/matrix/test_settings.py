"""Tests the settings of a Matrix account and their error messages."""

import sys
from pathlib import Path

import pytest
from tests.platforms.matrix.builders import new_platform
from tests.platforms.matrix.synapse import Account
from tests.support.platform_gateway import open_accounts, write_config

from holdfast.config import ConfigError, load
from holdfast.core.errors import ConnectRefused
from holdfast.platforms.matrix.checkpoint import (
    MAX_UNDECRYPTED,
    MatrixCheckpoint,
    SyncPosition,
    UndecryptedEvent,
)
from holdfast.platforms.matrix.platform import _import_encryption

HOME = '[platforms.matrix]\nhomeserver = "https://example.org"\nuser = "@bot:example.org"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[platforms.matrix]\n", "user = '' is not a full user id"),
        ('[platforms.matrix]\nuser = "bot"\n', 'user = "@bot:example.org"'),
        ('[platforms.matrix]\nuser = "@b:x"\nhomeserver = "x"\n', "homeserver = 'x' is not a URL"),
        (HOME, "password is missing"),
        (HOME + 'password = "env:A"\ntoken = "env:A"\n', "exclude each other"),
    ],
)
def test_a_missing_setting_is_named_with_a_remedy(text: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(write_config(tmp_path / "home", text), {"A": "secret"})


def test_each_account_has_its_own_platform(tmp_path: Path) -> None:
    other = '[platforms.matrix.accounts.work]\nhomeserver = "https://x.org"\nuser = "@w:x.org"\n'
    text = f'{HOME}password = "env:A"\n{other}token = "env:A"\n'
    accounts = [each.account for each in open_accounts(tmp_path / "home", text, {"A": "secret"})]
    assert accounts == ["default", "work"]


def test_a_library_that_is_not_installed_blocks_the_account_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "nio", None)  # what Python has of a module that is not
    monkeypatch.delitem(sys.modules, "holdfast.platforms.matrix.encryption", raising=False)
    monkeypatch.delitem(sys.modules, "holdfast.platforms.matrix.encryption", raising=False)
    with pytest.raises(ConnectRefused) as raised:
        _import_encryption()
    assert "pip install 'holdfast[matrix]'" in str(raised.value.remedy)


async def test_an_unreachable_server_is_retried(tmp_path: Path) -> None:
    platform = new_platform(
        "http://127.0.0.1:1", Account(name="@bot:localhost", token=""), tmp_path
    )
    with pytest.raises(Exception, match="cannot be reached") as raised:
        async with platform.connect(None):  # type: ignore[arg-type]
            pass
    assert not isinstance(raised.value, ConnectRefused)


def test_sync_positions_are_ordered_by_number() -> None:
    """The tokens of a server cannot be compared."""
    position = SyncPosition(number=9, since="s9_1")
    assert SyncPosition.parse(str(position)) == position
    assert position.next("s10 2").number == 10
    assert SyncPosition.parse(str(position.next("s10 2"))) == position.next("s10 2")
    assert [SyncPosition.parse(each) for each in (None, "", "s9", "x s9")] == [None] * 4


async def test_undecrypted_messages_are_stored_over_restarts_for_a_limited_time(
    tmp_path: Path,
) -> None:
    record = await MatrixCheckpoint.load(tmp_path / "record.json")
    many = [
        UndecryptedEvent(room_id="!r", event={"event_id": f"${n}"})
        for n in range(MAX_UNDECRYPTED + 2)
    ]
    await record.add_undecrypted(many)
    await record.remove_undecrypted("$7")
    again = await MatrixCheckpoint.load(tmp_path / "record.json")
    names = [each.event_id for each in again.undecrypted]
    assert len(names) == MAX_UNDECRYPTED - 1
    assert (names[0], names[-1]) == ("$2", f"${MAX_UNDECRYPTED + 1}")
    (tmp_path / "record.json").write_text("{nonsense")
    assert (await MatrixCheckpoint.load(tmp_path / "record.json")).position is None
