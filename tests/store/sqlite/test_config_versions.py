"""Configuration versions: numbered, saved once, with masked secrets, and never changed."""

from pathlib import Path

import apsw
import msgspec
import pytest

from holdfast.core.config.versions import ConfigSource, NewConfigVersion, mask_secrets
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditFilter
from holdfast.core.ports.store_queries import GetConfiguration, ListAudit, ListConfigurations
from holdfast.store.sqlite.schema import apply_migration, load_migrations
from holdfast.store.sqlite.store import SqliteStore


def new_version(text: str, *, at: float = 1.0, signature: str = "a") -> NewConfigVersion:
    return NewConfigVersion(
        at=at,
        by="cli",
        source=ConfigSource.SET,
        text=text,
        changed=("a",),
        signature=signature,
    )


async def test_a_configuration_is_saved_once_and_found_by_its_number(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        first = await store.write(new_version("a = 1\n"))
        assert await store.write(new_version("a = 1\n", at=2.0)) == first
        second = await store.write(new_version("a = 2\n", at=3.0))
        other_secrets = await store.write(new_version("a = 2\n", at=4.0, signature="b"))
        back = await store.write(new_version("a = 1\n", at=5.0))
        assert (first, second, other_secrets, back) == (1, 2, 3, 4)
        saved = await store.read(GetConfiguration(number=first))
        assert saved is not None
        assert (saved.text, saved.at, saved.by, saved.changed) == ("a = 1\n", 1.0, "cli", ("a",))
        assert [each.number for each in await store.read(ListConfigurations(limit=2))] == [4, 3]
        assert [
            each.number for each in await store.read(ListConfigurations(before=3, limit=9))
        ] == [2, 1]
        assert await store.read(GetConfiguration(number=5)) is None


async def test_the_audit_names_the_actor_and_the_source_of_a_configuration(tmp_path: Path) -> None:
    """With the same actor names as every other audit row."""
    async with SqliteStore(tmp_path / "state.db") as store:
        for source in ConfigSource:
            new = msgspec.structs.replace(new_version(f"a = '{source}'\n"), source=source)
            await store.write(new)
        rows = await store.read(ListAudit(where=AuditFilter(kind="configuration"), limit=9))
    assert {str(row.facts["source"]): row.actor for row in rows} == {
        "start": GATEWAY_ACTOR,
        "file": GATEWAY_ACTOR,
        "reload": OPERATOR,
        "set": OPERATOR,
        "rollback": OPERATOR,
    }
    assert {(row.facts["by"], row.facts["keys"]) for row in rows} == {("cli", "a")}


async def test_secrets_are_masked_in_saved_configurations(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        number = await store.write(new_version('[model]\napi_key = "sk-very-secret"\n'))
        saved = await store.read(GetConfiguration(number=number))
        assert saved is not None
        assert saved.text == '[model]\napi_key = "***"\n'


@pytest.mark.parametrize(
    ("text", "saved"),
    [
        ('api_key = "env:KEY"', 'api_key = "env:KEY"'),
        ("token = 'file:a b'  # mine", "token = 'file:a b'  # mine"),
        ('{name = "x", api_key="sk"}', '{name = "x", api_key="***"}'),
        ('# token = "sk-1"', '# token = "***"'),
        ('"password" = """\nsk\n"""\nport = 1', '"password" = "***"\nport = 1'),
        ('signing_secret = "a\\"b" # c', 'signing_secret = "***" # c'),
        ('api_key = ""\nname = "env"', 'api_key = ""\nname = "env"'),
    ],
)
def test_only_references_to_secrets_stay_unmasked(text: str, saved: str) -> None:
    assert mask_secrets(text) == saved


def test_saved_configurations_cannot_be_changed_or_deleted() -> None:
    db = apsw.Connection(":memory:")
    for each in load_migrations():
        apply_migration(db, each)
    db.execute(
        "INSERT INTO configurations (at, by, source, text, changed, signature)"
        " VALUES (1, 'cli', 'set', '', '[]', '')"
    )
    for attempt in ("UPDATE configurations SET text = 'x'", "DELETE FROM configurations"):
        with pytest.raises(apsw.ConstraintError, match="never"):
            db.execute(attempt)
    db.close()
