"""Reloading the configuration of a running gateway: what is applied, delayed and refused."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
from tests.support.gateway_harness import GatewayHarness, Until, WallClock

from holdfast.agent.memory.notes import Notes
from holdfast.config import ConfigError, load
from holdfast.core.config.settings import SandboxMode
from holdfast.core.config.versions import ConfigSource, ConfigStatus, NewConfigVersion, ReloadResult
from holdfast.core.messages.outbox import Address
from holdfast.core.ops.status import GatewaySnapshot, ProblemLevel, StatusReport
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditFilter
from holdfast.core.ports.store_queries import ListAudit, ListConfigurations
from holdfast.core.secrets import Secret
from holdfast.models.pool import ModelPool
from holdfast.server.status.problems import find_problems
from holdfast.service.agent_config import (
    AgentConfigBuilder,
    ToolsetBuilder,
    select_configured_model,
)
from holdfast.service.reload import Reloader, watch_config_files
from holdfast.system.credential_locks import FileCredentialLocks
from holdfast.system.egress import EgressPolicy

NOWHERE = "http://127.0.0.1:9"  # nothing listens there
INITIAL_TOML = '[model]\nprovider = "demo"\n'
WORK = Address(platform="simulated", account="work", chat_id="x")


class ReloadHarness:
    """A home with its gateway and the reloader of its configuration."""

    def __init__(
        self,
        home: Path,
        harness: GatewayHarness,
        reloader: Reloader,
        agent_configs: AgentConfigBuilder,
        new_reloader: Callable[[], Reloader],
    ) -> None:
        """`new_reloader` makes another reloader, as the next process has."""
        self.file = home / "holdfast.toml"
        self.env = home / ".env"
        self.harness = harness
        self.reloader = reloader
        self.agent_configs = agent_configs
        self.new_reloader = new_reloader

    async def reload(self, toml: str, **variables: str) -> ReloadResult:
        self.file.write_text(INITIAL_TOML + toml)
        self.env.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        self.env.chmod(0o600)
        return await self.reloader.reload(by="a test", source=ConfigSource.RELOAD)

    @property
    def codes(self) -> dict[str, ProblemLevel]:
        """The reported problems of the configuration."""
        now = GatewaySnapshot(state="running", configuration=self.reloader.status)
        document = StatusReport(
            state="running", pid=1, version="", home="", started_at=0, uptime=1, snapshot=now
        )
        return {each.code: each.level for each in find_problems(document, now=1.0)}


@pytest.fixture
async def reload_harness(tmp_path: Path) -> AsyncIterator[ReloadHarness]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text(INITIAL_TOML)
    config = load(home, {})
    harness = GatewayHarness(tmp_path / "state.db")
    harness.settings = config.settings
    await harness.start()
    async with ModelPool() as pool:
        notes = Notes(harness.store, clock=WallClock(), redact=str, max_chars=1000)
        toolsets = ToolsetBuilder(
            config.settings.browser,
            home=home,
            store=harness.store,
            notes=notes,
            clock=WallClock(),
            egress=EgressPolicy,
        )
        model = await select_configured_model(config)
        agent_configs = AgentConfigBuilder(
            pool,
            toolsets,
            token=Secret("the-token"),
            model=model,
            model_settings=config.settings.model,
        )
        new_reloader = partial(
            Reloader,
            config,
            gateway=harness.gateway,
            agent_configs=agent_configs,
            versions=harness.store,
            credential_locks=FileCredentialLocks(tmp_path / "claims", home=home, identities={}),
            clock=WallClock(),
            new_id=harness.new_id,
        )
        reloader = new_reloader()
        await reloader.record_start_config()
        yield ReloadHarness(home, harness, reloader, agent_configs, new_reloader)
        await harness.stop()


async def test_a_changed_file_becomes_active_under_a_new_version_number(
    reload_harness: ReloadHarness,
) -> None:
    """Law 15: each version is stored with its source; an unchanged file is no new version."""
    gateway = reload_harness.harness.gateway
    assert reload_harness.reloader.status.number == 1
    done = await reload_harness.reload("[agent]\nmax_steps = 7\n")
    assert (done.number, done.changed, done.pending_restart) == (2, ("agent.max_steps",), ())
    assert gateway.settings.agent.max_steps == 7
    again = await reload_harness.reloader.reload(by="a test", source=ConfigSource.FILE)
    assert (again.number, again.changed) == (2, ())
    versions = await reload_harness.harness.store.read(ListConfigurations(limit=10))
    assert [(each.number, each.by, each.source) for each in versions] == [
        (2, "a test", ConfigSource.RELOAD),
        (1, "start", ConfigSource.START),
    ]
    assert reload_harness.codes == {}


async def test_a_change_right_after_the_start_does_not_hide_the_initial_version(
    reload_harness: ReloadHarness,
) -> None:
    """Law 15: the initial version shows what was changed in the file while no gateway ran."""
    reloader, store = reload_harness.reloader, reload_harness.harness.store
    before = NewConfigVersion(
        at=1.0,
        by="start",
        source=ConfigSource.START,
        text=f"{INITIAL_TOML}[agent]\nmax_steps = 3\n",
        signature="of an earlier life",
    )
    await store.write(before)
    reloader.status = ConfigStatus()  # nothing is stored yet, as in a process that just began
    await reload_harness.reload("[agent]\nmax_steps = 7\n")
    changed, began = await store.read(ListConfigurations(limit=2))
    assert (changed.source, changed.changed) == (ConfigSource.RELOAD, ("agent.max_steps",))
    assert (began.source, began.changed) == (ConfigSource.START, ("agent.max_steps",))
    assert (began.text, began.by) == (INITIAL_TOML, "the file, changed before this start")
    *_, row = await store.read(ListAudit(where=AuditFilter(kind="configuration"), limit=2))
    assert (row.actor, row.facts["by"], row.facts["keys"]) == (
        GATEWAY_ACTOR,
        "the file, changed before this start",
        "agent.max_steps",
    )


async def test_an_invalid_file_is_reported_and_changes_nothing(
    reload_harness: ReloadHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """Law 15: the last good one runs on; it is told until it is right, and in the log once."""
    settings = reload_harness.harness.gateway.settings
    with caplog.at_level(logging.ERROR, logger="holdfast"):
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"line 4: agent\.max_steps has a value"):
                await reload_harness.reload('[agent]\nmax_steps = "many"\n')
    assert len([each for each in caplog.records if "config_invalid" in str(vars(each))]) == 1
    assert reload_harness.harness.gateway.settings is settings
    assert "line 4" in reload_harness.reloader.status.problem
    assert reload_harness.codes == {"config_invalid": ProblemLevel.WARNING}
    # A model that is described and could not be called is no better than a wrong word; and the one
    # that is in force is not chosen again for it, which may be another by then.
    model = await reload_harness.agent_configs.model_for(reload_harness.reloader.config)
    spare = '[[model.fallbacks]]\nprovider = "openai"\nname = "m"\napi_key = "env:SPARE"\n'
    with pytest.raises(ConfigError, match="key"):
        await reload_harness.reload(spare, SPARE="no key has spaces")
    assert await reload_harness.agent_configs.model_for(reload_harness.reloader.config) is model
    assert reload_harness.harness.gateway.settings is settings
    mended = await reload_harness.reload("[agent]\nmax_steps = 8\n")
    assert (mended.number, reload_harness.codes) == (2, {})
    assert reload_harness.harness.gateway.settings.agent.max_steps == 8


async def test_anything_in_place_of_the_file_is_a_problem_of_the_file_alone(
    reload_harness: ReloadHarness,
) -> None:
    """Law 15: nothing is waited for, no error but ours comes of it, and what is in force stays."""
    await reload_harness.reload("[agent]\nmax_steps = 7\n")
    file, reloader = reload_harness.file, reload_harness.reloader
    puts: dict[str, Callable[[], object]] = {
        "a pipe": lambda: os.mkfifo(file),
        "Is a directory": file.mkdir,
        "larger than": lambda: file.write_text("#" * 1_000_001),
        "links": lambda: file.symlink_to(file),
        "digits": lambda: file.write_text(f"[agent]\nmax_steps = {'9' * 5000}\n"),
        "nested too deeply": lambda: file.write_text(f"a = {'[' * 5000}{']' * 5000}\n"),
        "it was deleted": lambda: None,
    }
    for problem, put in puts.items():
        file.rmdir() if file.is_dir() else file.unlink(missing_ok=True)
        put()
        await reloader.reload_and_log(by="the file", source=ConfigSource.FILE)
        assert problem in reloader.status.problem
    assert reload_harness.harness.gateway.settings.agent.max_steps == 7
    assert len(await reload_harness.harness.store.read(ListConfigurations(limit=10))) == 2


async def test_a_refused_write_of_the_file_leaves_no_problem_behind(
    reload_harness: ReloadHarness,
) -> None:
    """They restore the previous content, which may never be checked again."""

    def write() -> None:
        reload_harness.file.write_text(f"{INITIAL_TOML}[agent]\nmax_steps = 0\n")

    with pytest.raises(ConfigError):
        await reload_harness.reloader.reload(by="owner", source=ConfigSource.SET, before_read=write)
    assert reload_harness.reloader.status.problem == ""


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
async def test_a_file_that_becomes_a_link_is_followed_to_where_it_leads(
    reload_harness: ReloadHarness, until: Until, tmp_path: Path
) -> None:
    """Also to what is written there later, of which the home itself hears nothing."""
    target = tmp_path / "kept" / "holdfast.toml"
    target.parent.mkdir()

    def is_active(steps: int) -> bool:
        return reload_harness.harness.gateway.settings.agent.max_steps == steps

    following = watch_config_files(reload_harness.reloader, is_enabled=lambda: True)
    task = asyncio.create_task(following)
    try:
        for steps in (3, 4, 5):
            target.write_text(f"{INITIAL_TOML}[agent]\nmax_steps = {steps}\n")
            if not reload_harness.file.is_symlink():
                reload_harness.file.unlink()
                reload_harness.file.symlink_to(target)
            await until(partial(is_active, steps))
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
async def test_a_file_saved_during_the_start_is_not_missed(
    reload_harness: ReloadHarness, until: Until
) -> None:
    """Between the reading of the file and the watch on it lies the whole start."""
    reload_harness.file.write_text(f"{INITIAL_TOML}[agent]\nmax_steps = 6\n")
    following = watch_config_files(reload_harness.new_reloader(), is_enabled=lambda: True)
    task = asyncio.create_task(following)
    try:
        gateway = reload_harness.harness.gateway
        await until(lambda: gateway.settings.agent.max_steps == 6)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_setting_that_needs_a_restart_waits_and_delays_no_other(
    reload_harness: ReloadHarness,
) -> None:
    """The table of effects is exact: also if the key is set back before a restart."""
    done = await reload_harness.reload(
        '[gateway]\nport = 9999\nbusy_mode = "queue"\n[runner]\nsandbox = "off"\n'
        '[platforms.api]\nallow = ["eve"]\nenabled = false\n'
    )
    waiting = {"gateway.port", "runner.sandbox", "platforms.api.enabled"}
    assert set(done.pending_restart) == waiting
    assert set(done.changed) == waiting | {"gateway.busy_mode", "platforms.api.allow"}
    now = reload_harness.harness.gateway.settings
    assert (now.gateway.port, now.runner.sandbox) == (8787, SandboxMode.REQUIRED)
    assert now.platforms["api"].enabled and now.platforms["api"].allow == ("eve",)
    assert now.gateway.busy_mode == "queue"
    assert reload_harness.codes == {"config_pending_restart": ProblemLevel.WARNING}
    assert (await reload_harness.reload('[gateway]\nbusy_mode = "queue"\n')).pending_restart == ()
    assert reload_harness.codes == {}


async def test_accounts_are_added_changed_and_removed_independently(
    reload_harness: ReloadHarness, until: Until
) -> None:
    """Settings that only the gateway reads keep the connection; those the platform was opened with
    reconnect it, and so does another secret behind the same reference."""
    platforms = reload_harness.harness.gateway.platforms
    beside = platforms.find(Address(platform="simulated", account="default", chat_id="x"))
    account = f'[platforms.simulated.accounts.work]\nbase_url = "{NOWHERE}"\n'
    referring = f'{account}token = "env:WORK_TOKEN"\n'
    added = await reload_harness.reload(account)
    assert added.accounts == ("simulated:work",)
    assert "platforms.simulated" in added.changed
    first = platforms.find(WORK)
    assert first is not None
    allowed = await reload_harness.reload(f'{account}allow = ["eve"]\n')
    assert allowed.accounts == ()
    assert platforms.find(WORK) is first
    seen = [first]
    for secret in ("old-old-secret", "new-new-secret"):
        done = await reload_harness.reload(referring, WORK_TOKEN=secret)
        assert done.accounts == ("simulated:work",)
        await until(lambda: platforms.find(WORK) not in (None, *seen))
        found = platforms.find(WORK)
        assert found is not None
        seen.append(found)
    assert done.changed == ("platforms.simulated.accounts.work.token",)
    gone = await reload_harness.reload("")
    assert gone.accounts == ("simulated:work",)
    await until(lambda: not platforms.has("simulated", "work"))
    assert platforms.find(Address(platform="simulated", account="default", chat_id="x")) is beside
    redact = reload_harness.harness.gateway.redact
    assert redact("old-old-secret new-new-secret") == "[redacted] [redacted]"


async def test_send_tools_depend_on_the_external_accounts(
    reload_harness: ReloadHarness, until: Until
) -> None:
    """An agent is offered what can be done here: also after a change of something else, and from
    the very change that brings the first account which messages can be sent to."""
    gateway = reload_harness.harness.gateway
    gateway.accounts.remove("simulated", "default")
    await until(lambda: not gateway.platforms.has("simulated", "default"))
    await reload_harness.reload("[approvals]\ntimeout = 9\n")
    assert "send_message" not in gateway.agent_factory._agent_config.toolbox.by_name
    await reload_harness.reload(f'[platforms.simulated.accounts.work]\nbase_url = "{NOWHERE}"\n')
    assert "send_message" in gateway.agent_factory._agent_config.toolbox.by_name
