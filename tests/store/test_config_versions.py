"""Configuration versions: numbered, saved once, with masked secrets."""

import msgspec
import pytest

from holdfast.core.config.versions import ConfigSource, NewConfigVersion, mask_secrets
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditFilter
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_queries import GetConfiguration, ListAudit, ListConfigurations


def new_version(text: str, *, at: float = 1.0, signature: str = "a") -> NewConfigVersion:
    return NewConfigVersion(
        at=at,
        by="cli",
        source=ConfigSource.SET,
        text=text,
        changed=("a",),
        signature=signature,
    )


async def test_a_configuration_is_saved_once_and_found_by_its_number(store: Store) -> None:
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
    assert [each.number for each in await store.read(ListConfigurations(before=3, limit=9))] == [
        2,
        1,
    ]
    assert await store.read(GetConfiguration(number=5)) is None


async def test_the_audit_names_the_actor_and_the_source_of_a_configuration(store: Store) -> None:
    """With the same actor names as every other audit row."""
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


async def test_secrets_are_masked_in_saved_configurations(store: Store) -> None:
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
