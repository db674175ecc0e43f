"""Locks on the credentials of accounts: one holder at a time, and nothing left behind."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.errors import AccountInUse
from holdfast.system.credential_locks import FileCredentialLocks

NewLocks = Callable[..., FileCredentialLocks]


@pytest.fixture
def new_locks(tmp_path: Path) -> NewLocks:
    def make(home: str, **identities: tuple[str, ...]) -> FileCredentialLocks:
        known = {("telegram", account): identity for account, identity in identities.items()}
        return FileCredentialLocks(tmp_path / "claims", home=Path(home), identities=known)

    return make


async def test_a_locked_account_is_refused_with_the_name_of_the_holder(new_locks: NewLocks) -> None:
    first = new_locks("/home/ann", default=("telegram", "secret-token"))
    second = new_locks("/home/bob", bot=("telegram", "secret-token"))
    async with first.claim("telegram", "default"):
        with pytest.raises(AccountInUse) as held:
            await second.claim("telegram", "bot").__aenter__()
        assert "/home/ann" in held.value.holder and "telegram:default" in held.value.holder
    await asyncio.sleep(0)
    async with second.claim("telegram", "bot"):
        pass


async def test_accounts_without_identity_are_shared_and_each_token_is_an_account(
    new_locks: NewLocks, tmp_path: Path
) -> None:
    first = new_locks("/home/ann", default=("telegram", "one"))
    second = new_locks("/home/bob", default=("telegram", "two"))
    async with first.claim("telegram", "default"), second.claim("telegram", "default"):
        assert len(list((tmp_path / "claims").iterdir())) == 2
    async with first.claim("irc", "x"), second.claim("irc", "x"):
        pass


async def test_no_credential_is_written_to_disk(new_locks: NewLocks, tmp_path: Path) -> None:
    async with new_locks("/home/ann", default=("telegram", "secret-token")).claim(
        "telegram", "default"
    ):
        (file,) = (tmp_path / "claims").iterdir()
        assert "secret" not in file.name and b"secret" not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0


async def test_a_cancelled_lock_attempt_is_released(new_locks: NewLocks) -> None:
    """A platform whose timeout ends while the disk is slow leaves no lock behind."""
    ours = new_locks("/home/ann", default=("telegram", "token"))
    claiming = asyncio.ensure_future(ours.claim("telegram", "default").__aenter__())
    await asyncio.sleep(0)
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    async with asyncio.timeout(30):
        while True:
            try:
                async with ours.claim("telegram", "default"):
                    return
            except AccountInUse:
                await asyncio.sleep(0.01)


async def test_an_account_is_used_when_locks_are_unavailable(
    new_locks: NewLocks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "claims").write_text("a file where the folder should be")
    async with new_locks("/home/ann", default=("telegram", "token")).claim("telegram", "default"):
        assert "Cannot lock" in caplog.text


async def test_a_removed_lock_file_can_be_locked_again(new_locks: NewLocks, tmp_path: Path) -> None:
    ours = new_locks("/home/ann", default=("telegram", "token"))
    async with ours.claim("telegram", "default"):
        (file,) = (tmp_path / "claims").iterdir()
        file.unlink()
    async with ours.claim("telegram", "default"):
        with pytest.raises(AccountInUse):
            await ours.claim("telegram", "default").__aenter__()
