"""Changes: what another configuration makes otherwise, and what of it has to wait for a restart."""

from collections.abc import Iterator

import msgspec

from holdfast.config import Config
from holdfast.core.config.differences import differing
from holdfast.core.config.effect import Effect, effect_of
from holdfast.service.account_changes import AccountChanges, account_changes


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Keys are as people write them."""

    keys: tuple[str, ...]  # that are not as they were in the last good one
    waits: tuple[str, ...]  # that are not as this process began with them, and cannot be swapped
    accounts: AccountChanges


def changes(old: Config, new: Config, *, began_with: Config) -> Changes:
    since_the_start = _keys(began_with, new)
    return Changes(
        keys=tuple(_keys(old, new)),
        waits=tuple(key for key in since_the_start if effect_of(key) is Effect.RESTART),
        accounts=account_changes(old, new),
    )


def _keys(old: Config, new: Config) -> Iterator[str]:
    """Also those that refer to the same secret as before, which is another by now."""
    found = differing(old.settings, new.settings)
    yield from found
    for key in {**old.secrets, **new.secrets}:
        if not _covered(key, found) and _value(old, key) != _value(new, key):
            yield key


def _covered(key: str, found: tuple[str, ...]) -> bool:
    return any(key == each or key.startswith((f"{each}.", f"{each}[")) for each in found)


def _value(config: Config, key: str) -> str | None:
    secret = config.secret(key)
    return None if secret is None else secret.reveal()
