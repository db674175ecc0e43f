"""Changing the configuration of a running gateway: checked, written and applied as a whole."""

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


class FakeReloader:
    """Applies the file and stores the version; a test sets which keys wait for a restart, or an
    error."""

    def __init__(self, home: Path, store: SqliteStore) -> None:
        self.config: Config = load(home, {})
        self.status = ConfigStatus()
        self.error: HoldfastError | None = None
        self.store = store

    async def reload(
        self, *, by: str, source: ConfigSource, before_read: Callable[[], None] | None = None
    ) -> ReloadResult:
        if before_read is not None:
            before_read()
        if self.error is not None:
            raise self.error
        home = self.config.home
        self.config = load(home, {})
        text = (home / "holdfast.toml").read_text()
        number = await self.store.write(
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
async def reloader(home: Path) -> AsyncIterator[FakeReloader]:
    async with SqliteStore(home / "state.db") as store:
        reloader = FakeReloader(home, store)
        await reloader.reload(by="start", source=ConfigSource.START)
        yield reloader


@pytest.fixture
def editor(reloader: FakeReloader) -> ConfigEditor:
    return ConfigEditor(reloader, history=reloader.store, settings=lambda: reloader.config.settings)


async def test_every_key_is_listed_with_its_value_origin_and_effect(
    editor: ConfigEditor, reloader: FakeReloader
) -> None:
    reloader.status = ConfigStatus(number=1, pending_restart=("gateway.port",))
    view = await editor.view()
    keys = {each.key: each for each in view.keys}
    assert (view.number, view.problem, view.pending_restart) == (1, "", ["gateway.port"])
    port, titles = keys["gateway.port"], keys["auxiliary.titles"]
    assert (port.value, port.origin, port.effect) == (9000, "holdfast.toml", ChangeEffect.RESTART)
    assert (port.kind, port.pending_restart, port.live_value) == (KeyKind.INTEGER, True, 9000)
    assert (titles.kind, titles.origin, titles.in_file) == (KeyKind.BOOLEAN, "default", False)
    assert keys["model.provider"].choices[-1] == "demo"
    assert keys["model.api_key"].kind is KeyKind.SECRET
    assert keys["agent.toolsets"].kind is KeyKind.LIST


async def test_a_change_is_written_applied_and_can_be_rolled_back(
    editor: ConfigEditor, home: Path
) -> None:
    read = await editor.view()
    asked = ConfigChange(set={"agent.max_steps": 7}, number=read.number, revision=read.revision)
    done = await editor.change(asked, by="owner")
    assert done.number == 2
    assert [(each.key, each.old, each.new) for each in done.changes] == [("agent.max_steps", 90, 7)]
    assert (home / "holdfast.toml").read_text() == f"{FILE}\n[agent]\nmax_steps = 7\n"
    one = await editor.version(2, against=None)
    assert (one.against, one.by, one.source) == (1, "owner", ConfigSource.SET)
    assert "+max_steps = 7" in one.diff
    back = await editor.roll_back(RollbackParams(to=1), by="owner")
    assert back.number == 3
    assert (home / "holdfast.toml").read_text() == FILE
    listed = await editor.history(before=None, limit=2)
    assert [(each.number, each.active) for each in listed.versions] == [
        (3, True),
        (2, False),
    ]
    assert listed.more
    assert changed_keys(one.text, FILE) == ("agent.max_steps",)


async def test_a_change_to_a_stale_version_is_refused(editor: ConfigEditor, home: Path) -> None:
    read = await editor.view()
    (home / "holdfast.toml").write_text(f"{FILE}# by hand\n")
    for stale in ({"revision": read.revision}, {"number": 7}):
        with pytest.raises(StaleRead, match="Reload it"):
            await editor.change(ConfigChange(set={"agent.max_steps": 7}, **stale), by="owner")
    assert (home / "holdfast.toml").read_text() == f"{FILE}# by hand\n"


async def test_a_rollback_restores_the_password_that_no_view_shows(
    editor: ConfigEditor, home: Path
) -> None:
    url = "https://me:hunter2hunter2@example.org/in"
    await editor.change(ConfigChange(set={"platforms.webhook.url": url}), by="owner")
    await editor.roll_back(RollbackParams(to=1), by="owner")
    done = await editor.roll_back(RollbackParams(to=2), by="owner")
    assert url in (home / "holdfast.toml").read_text()
    shown = f"{done}{await editor.version(2, against=1)}{await editor.view()}"
    assert "https://me:***@example.org/in" in shown and "hunter2" not in shown


async def test_a_refused_change_leaves_the_file_as_it_was(
    editor: ConfigEditor, reloader: FakeReloader, home: Path
) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.port has a value"):
        await editor.change(ConfigChange(set={"gateway.port": -1}), by="owner")
    reloader.error = ConfigError("not now")
    with pytest.raises(ConfigError, match="not now"):
        await editor.change(ConfigChange(set={"gateway.port": 80}), by="owner")
    with pytest.raises(NoSuchConfigVersion, match="config history"):
        await editor.roll_back(RollbackParams(to=9), by="owner")
    assert (home / "holdfast.toml").read_text() == FILE
    (home / "holdfast.toml").unlink()
    (home / "holdfast.toml").symlink_to(home / "no such folder" / "holdfast.toml")
    with pytest.raises(FileNotWritten, match="Could not write"):
        await editor.roll_back(RollbackParams(to=1), by="owner")


async def test_a_change_that_cannot_be_stored_is_not_left_in_the_file(
    editor: ConfigEditor, reloader: FakeReloader, home: Path
) -> None:
    """Otherwise the next start would apply a change that was reported as failed."""
    reloader.error = TransientStoreError("the disk is full")
    with pytest.raises(TransientStoreError):
        await editor.change(ConfigChange(set={"agent.max_steps": 7}), by="owner")
    assert (home / "holdfast.toml").read_text() == FILE


async def test_a_deleted_file_is_restored_completely_or_not_at_all(
    editor: ConfigEditor, home: Path
) -> None:
    """Setting one key does not lose all the others, which are still active."""
    (home / "holdfast.toml").unlink()
    assert "it was deleted" in (await editor.view()).problem
    with pytest.raises(ConfigError, match="it was deleted"):
        await editor.change(ConfigChange(set={"agent.max_steps": 7}), by="owner")
    assert not (home / "holdfast.toml").exists()
    await editor.roll_back(RollbackParams(to=1), by="owner")
    assert (home / "holdfast.toml").read_text() == FILE


async def test_an_invalid_file_is_reported_beside_the_active_values(
    editor: ConfigEditor, home: Path
) -> None:
    (home / "holdfast.toml").write_text("[gateway]\nprot = 1\n")
    view = await editor.view()
    assert "line 2: gateway.prot is not a key" in view.problem
    assert {each.key: each.value for each in view.keys}["gateway.port"] == 9000
