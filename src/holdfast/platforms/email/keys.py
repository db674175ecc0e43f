"""Keys: what lets us in at the mail servers, a password or a token that is asked for in time."""

from typing import Protocol

import msgspec

from holdfast.core.secret import Secret


class Key(msgspec.Struct, frozen=True, kw_only=True):
    secret: Secret
    is_token: bool = False  # it is said by XOAUTH2, and not as a password
    made_at: float = 0.0  # by a clock that only goes forward


class Keys(Protocol):
    async def key(self) -> Key:
        """The one that holds now. Raises `ConnectRefused` where there will be none before somebody
        has mended something, and `LineLost` where there is none for the moment."""
        ...

    def refused(self, key: Key) -> bool:
        """A server does not take it. Whether another try would be in vain."""
        ...


class Password:
    """Holds one that somebody has set, and that only somebody can change."""

    def __init__(self, secret: Secret) -> None:
        self._key = Key(secret=secret)

    async def key(self) -> Key:
        return self._key

    def refused(self, key: Key) -> bool:
        return True
