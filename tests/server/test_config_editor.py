"""Configuring a gateway that runs: checked, written, taken over, and never half of it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from holdfast.config import Config, ConfigError, load
from holdfast.config.editor import changed_keys
from holdfast.config.files import FileNotWritten
from holdfast.core.config.changes import ChangeEffect
from holdfast.core.config.versions import ConfigSource, ConfigStatus, NewConfigVersion, ReloadResult
from holdfast.core.errors import HoldfastError, TransientStoreError
from holdfast.server.api.views.config import ConfigChange, KeyKind, RollbackParams
from holdfast.server.config_editor import ConfigEditor, NoSuchConfigVersion, StaleRead
from holdfast.store.sqlite.store import SqliteStore

FILE = """\
[gateway]
port = 9000

[model]
provider = "demo"  # for now
"""


class Swapper:
    """Takes over what stands in the file, and keeps it; a test says which keys wait, or refuses."""

    def __init__(self, home: Path, store: SqliteStore) -> None:
        self.config: Config = load(home, {})
        self.status = ConfigStatus()
        self.fails: HoldfastError | None = None
        self.store = store

    async def reload(
        self, *, by: str, source: ConfigSource, before_read: Callable[[], None] | None = None
    ) -> ReloadResult:
        if before_read is not None:
            before_read()
        if self.fails is not None:
            raise self.fails
        home = self.config.home
        self.config = load(home, {})
        text = (home / "holdfast.toml").read_text()
        number = await self.store.save_configuration(
            NewConfigVersion(
                at=1.0, by=by, source=source, text=text, signature=self.config.signature
            )
        )
        self.status = ConfigStatus(
            number=number, since=1.0, pending_restart=self.status.pending_restart
        )
        return ReloadResult(number=number, pending_restart=self.status.pending_restart)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    (tmp_path / "holdfast.toml").write_text(FILE)
    return tmp_path


@pytest.fixture
async def swapper(home: Path) -> AsyncIterator[Swapper]:
    async with SqliteStore(home / "state.db") as store:
        swapper = Swapper(home, store)
        await swapper.reload(by="start", source=ConfigSource.START)
        yield swapper


@pytest.fixture
def desk(swapper: Swapper) -> ConfigEditor:
    return ConfigEditor(swapper, history=swapper.store, settings=lambda: swapper.config.settings)


async def test_every_key_is_told_with_its_value_its_place_and_when_it_takes_effect(
    desk: ConfigEditor, swapper: Swapper
) -> None:
    swapper.status = ConfigStatus(number=1, pending_restart=("gateway.port",))
    view = await desk.view()
    keys = {each.key: each for each in view.keys}
    assert (view.number, view.problem, view.pending_restart) == (1, "", ["gateway.port"])
    port, titles = keys["gateway.port"], keys["auxiliary.titles"]
    assert (port.value, port.origin, port.effect) == (9000, "holdfast.toml", ChangeEffect.RESTART)
    assert (port.kind, port.pending_restart, port.live_value) == (KeyKind.INTEGER, True, 9000)
    assert (titles.kind, titles.origin, titles.in_file) == (KeyKind.BOOLEAN, "default", False)
    assert keys["model.provider"].choices[-1] == "demo"
    assert keys["model.api_key"].kind is KeyKind.SECRET
    assert keys["agent.toolsets"].kind is KeyKind.LIST


async def test_a_change_is_written_taken_over_and_can_be_put_back(
    desk: ConfigEditor, home: Path
) -> None:
    read = await desk.view()
    asked = ConfigChange(set={"agent.max_steps": 7}, number=read.number, revision=read.revision)
    done = await desk.change(asked, by="owner")
    assert done.number == 2
    assert [(each.key, each.old, each.new) for each in done.changes] == [("agent.max_steps", 90, 7)]
    assert (home / "holdfast.toml").read_text() == f"{FILE}\n[agent]\nmax_steps = 7\n"
    one = await desk.version(2, against=None)
    assert (one.against, one.by, one.source) == (1, "owner", ConfigSource.SET)
    assert "+max_steps = 7" in one.diff
    back = await desk.roll_back(RollbackParams(to=1), by="owner")
    assert back.number == 3
    assert (home / "holdfast.toml").read_text() == FILE
    listed = await desk.history(before=None, limit=2)
    assert [(each.number, each.active) for each in listed.versions] == [
        (3, True),
        (2, False),
    ]
    assert listed.more
    assert changed_keys(one.text, FILE) == ("agent.max_steps",)


async def test_who_has_looked_at_another_file_changes_nothing(
    desk: ConfigEditor, home: Path
) -> None:
    read = await desk.view()
    (home / "holdfast.toml").write_text(f"{FILE}# by hand\n")
    for stale in ({"revision": read.revision}, {"number": 7}):
        with pytest.raises(StaleRead, match="look at it again"):
            await desk.change(ConfigChange(set={"agent.max_steps": 7}, **stale), by="owner")
    assert (home / "holdfast.toml").read_text() == f"{FILE}# by hand\n"


async def test_what_is_put_back_has_the_password_that_nobody_is_shown(
    desk: ConfigEditor, home: Path
) -> None:
    url = "https://me:hunter2hunter2@example.org/in"
    await desk.change(ConfigChange(set={"platforms.webhook.url": url}), by="owner")
    await desk.roll_back(RollbackParams(to=1), by="owner")
    done = await desk.roll_back(RollbackParams(to=2), by="owner")
    assert url in (home / "holdfast.toml").read_text()
    told = f"{done}{await desk.version(2, against=1)}{await desk.view()}"
    assert "https://me:***@example.org/in" in told and "hunter2" not in told


async def test_what_is_refused_leaves_the_file_as_it_was(
    desk: ConfigEditor, swapper: Swapper, home: Path
) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.port has a value"):
        await desk.change(ConfigChange(set={"gateway.port": -1}), by="owner")
    swapper.fails = ConfigError("not now")
    with pytest.raises(ConfigError, match="not now"):
        await desk.change(ConfigChange(set={"gateway.port": 80}), by="owner")
    with pytest.raises(NoSuchConfigVersion, match="config history"):
        await desk.roll_back(RollbackParams(to=9), by="owner")
    assert (home / "holdfast.toml").read_text() == FILE
    (home / "holdfast.toml").unlink()
    (home / "holdfast.toml").symlink_to(home / "no such folder" / "holdfast.toml")
    with pytest.raises(FileNotWritten, match="cannot be written"):
        await desk.roll_back(RollbackParams(to=1), by="owner")


async def test_what_cannot_be_kept_is_not_left_in_the_file(
    desk: ConfigEditor, swapper: Swapper, home: Path
) -> None:
    """Or a start would take over what somebody was told to have failed."""
    swapper.fails = TransientStoreError("the disk is full")
    with pytest.raises(TransientStoreError):
        await desk.change(ConfigChange(set={"agent.max_steps": 7}), by="owner")
    assert (home / "holdfast.toml").read_text() == FILE


async def test_a_file_that_was_taken_away_is_put_back_whole_or_not_at_all(
    desk: ConfigEditor, home: Path
) -> None:
    """Who sets one key does not lose all the others, which are still in force."""
    (home / "holdfast.toml").unlink()
    assert "it is gone" in (await desk.view()).problem
    with pytest.raises(ConfigError, match="it is gone"):
        await desk.change(ConfigChange(set={"agent.max_steps": 7}), by="owner")
    assert not (home / "holdfast.toml").exists()
    await desk.roll_back(RollbackParams(to=1), by="owner")
    assert (home / "holdfast.toml").read_text() == FILE


async def test_a_file_that_cannot_be_used_is_told_beside_what_is_in_force(
    desk: ConfigEditor, home: Path
) -> None:
    (home / "holdfast.toml").write_text("[gateway]\nprot = 1\n")
    view = await desk.view()
    assert "line 2: gateway.prot is not a key" in view.problem
    assert {each.key: each.value for each in view.keys}["gateway.port"] == 9000
