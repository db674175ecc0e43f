"""Keys: what lets us in at the mail servers, a password or a token that is asked for in time."""

from typing import Protocol

import msgspec

from holdfast.core.secret import Secret


class MailCredential(msgspec.Struct, frozen=True, kw_only=True):
    secret: Secret
    is_token: bool = False  # it is said by XOAUTH2, and not as a password
    issued_at: float = 0.0  # by a clock that only goes forward


class CredentialProvider(Protocol):
    async def current(self) -> MailCredential:
        """The one that holds now. Raises `ConnectRefused` where there will be none before somebody
        has mended something, and `AccountDisconnected` where there is none for the moment."""
        ...

    def report_refused(self, credential: MailCredential) -> bool:
        """A server does not take it. Whether another try would be in vain."""
        ...


class PasswordCredentials:
    """Holds one that somebody has set, and that only somebody can change."""

    def __init__(self, secret: Secret) -> None:
        self._credential = MailCredential(secret=secret)

    async def current(self) -> MailCredential:
        return self._credential

    def report_refused(self, credential: MailCredential) -> bool:
        return True
