"""Claims on the credentials of accounts: one holder at a time, and nothing left behind."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.errors import AccountInUse
from holdfast.system.credential_locks import FileCredentialLocks

Make = Callable[..., FileCredentialLocks]


@pytest.fixture
def claims(tmp_path: Path) -> Make:
    def make(home: str, **identities: tuple[str, ...]) -> FileCredentialLocks:
        known = {("telegram", account): identity for account, identity in identities.items()}
        return FileCredentialLocks(tmp_path / "claims", home=Path(home), identities=known)

    return make


async def test_one_holds_an_account_and_the_next_hears_who(claims: Make) -> None:
    first = claims("/home/ann", default=("telegram", "secret-token"))
    second = claims("/home/bob", bot=("telegram", "secret-token"))
    async with first.claim("telegram", "default"):
        with pytest.raises(AccountInUse) as held:
            await second.claim("telegram", "bot").__aenter__()
        assert "/home/ann" in held.value.holder and "telegram:default" in held.value.holder
    await asyncio.sleep(0)
    async with second.claim("telegram", "bot"):
        pass


async def test_what_has_no_identity_is_shared_and_another_token_is_another_account(
    claims: Make, tmp_path: Path
) -> None:
    first = claims("/home/ann", default=("telegram", "one"))
    second = claims("/home/bob", default=("telegram", "two"))
    async with first.claim("telegram", "default"), second.claim("telegram", "default"):
        assert len(list((tmp_path / "claims").iterdir())) == 2
    async with first.claim("irc", "x"), second.claim("irc", "x"):
        pass


async def test_no_credential_is_written_down(claims: Make, tmp_path: Path) -> None:
    async with claims("/home/ann", default=("telegram", "secret-token")).claim(
        "telegram", "default"
    ):
        (file,) = (tmp_path / "claims").iterdir()
        assert "secret" not in file.name and b"secret" not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0


async def test_a_claim_that_nobody_waits_for_any_more_is_given_back(claims: Make) -> None:
    """A door whose time is up while the disk is slow leaves no lock behind."""
    ours = claims("/home/ann", default=("telegram", "token"))
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


async def test_where_nothing_can_be_claimed_the_account_is_used_all_the_same(
    claims: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "claims").write_text("a file where the folder should be")
    async with claims("/home/ann", default=("telegram", "token")).claim("telegram", "default"):
        assert "Cannot lock" in caplog.text


async def test_a_file_that_somebody_removed_keeps_nobody_out_and_nobody_in(
    claims: Make, tmp_path: Path
) -> None:
    ours = claims("/home/ann", default=("telegram", "token"))
    async with ours.claim("telegram", "default"):
        (file,) = (tmp_path / "claims").iterdir()
        file.unlink()
    async with ours.claim("telegram", "default"):
        with pytest.raises(AccountInUse):
            await ours.claim("telegram", "default").__aenter__()
