"""When a changed key takes effect: at once or after a restart."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.config.changes import (
    ChangeEffect,
    change_effect,
    diff_settings,
    with_restart_keys_from,
)
from holdfast.core.config.settings import (
    BackupSettings,
    GatewaySettings,
    LogSettings,
    MemorySettings,
    PlatformSettings,
    Settings,
)

DOCS = Path(__file__).parents[3] / "docs" / "configuration.md"
OF_THE_PROCESS = {"platforms.api.enabled", "platforms.api.token", "platforms.web.enabled"}


def keys() -> list[str]:
    """Every key of every section, as people write it."""
    sections = msgspec.structs.asdict(Settings())
    return [
        f"{name}.{key}"
        for name, section in sections.items()
        if isinstance(section, msgspec.Struct)
        for key in section.__struct_fields__
    ]


def test_the_docs_name_the_keys_that_need_a_restart() -> None:
    """A section whose keys all do is named as a whole."""
    (row,) = re.findall(r"^\| (.*\(`restart`\)) \|", DOCS.read_text(), re.M)
    named = set(re.findall(r"`([\w.]+)`", row)) - {"restart"}
    restarts = {key for key in keys() if change_effect(key) is ChangeEffect.RESTART}
    whole = {section for section in named if "." not in section}
    assert {key for key in restarts if key.partition(".")[0] not in whole} == {
        key for key in named - OF_THE_PROCESS if "." in key
    }
    assert all(key in restarts for key in keys() if key.partition(".")[0] in whole)
    assert named >= OF_THE_PROCESS
    assert all(change_effect(key) is ChangeEffect.RESTART for key in OF_THE_PROCESS)


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        ("platforms.telegram.allow", ChangeEffect.NEXT_TURN),
        ("platforms.telegram.accounts.work.allow[0]", ChangeEffect.NEXT_TURN),
        ("platforms.matrix.chats.!room:example.org.answers", ChangeEffect.NEXT_TURN),
        ("platforms.telegram.token", ChangeEffect.ACCOUNT),
        ("platforms.telegram.accounts.work", ChangeEffect.ACCOUNT),
        ("platforms.webhook.hooks.build.secret", ChangeEffect.ACCOUNT),
        ("platforms.irc.enabled", ChangeEffect.ACCOUNT),
        ("platforms.web.allow", ChangeEffect.NEXT_TURN),
        ("prices.gpt-4.1.input", ChangeEffect.NEXT_TURN),
        ("model.fallbacks[0].api_key", ChangeEffect.NEXT_TURN),
        ("log.level", ChangeEffect.NEXT_TURN),
    ],
)
def test_a_key_inside_a_table_has_the_effect_of_what_it_belongs_to(
    key: str, effect: ChangeEffect
) -> None:
    assert change_effect(key) is effect


OLD = Settings(platforms={"simulated": PlatformSettings(allow=("ann",))})
NEW = Settings(
    gateway=GatewaySettings(port=9, host="::1", busy_mode="queue"),  # type: ignore[arg-type]
    memory=MemorySettings(providers=(), max_chars=200),
    backup=BackupSettings(keep=1),
    log=LogSettings(level="debug", files=0),  # type: ignore[arg-type]
    platforms={
        "api": PlatformSettings(enabled=False, allow=("eve",)),
        "simulated": PlatformSettings(allow=("bob",), enabled=False),
        "irc": PlatformSettings(),
    },
)


def test_only_changes_that_need_a_restart_are_held_back() -> None:
    changed = set(diff_settings(OLD, NEW))
    waits = {key for key in changed if change_effect(key) is ChangeEffect.RESTART}
    assert waits == {
        *("gateway.host", "gateway.port", "memory.providers", "backup.keep", "log.files"),
        "platforms.api.enabled",
    }
    assert changed - waits == {
        *("gateway.busy_mode", "memory.max_chars", "log.level", "platforms.api.allow"),
        *("platforms.simulated.allow", "platforms.simulated.enabled", "platforms.irc"),
    }
    held = with_restart_keys_from(NEW, OLD)
    assert set(diff_settings(OLD, held)) == changed - waits
    assert set(diff_settings(held, NEW)) == waits


@pytest.mark.parametrize("name", ["api", "web"])
def test_a_table_that_repeats_defaults_changes_nothing(name: str) -> None:
    said: dict[str, Any] = {name: PlatformSettings()}
    assert diff_settings(OLD, msgspec.structs.replace(OLD, platforms=OLD.platforms | said)) == ()
