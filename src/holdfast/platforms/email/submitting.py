"""Submitting: one mail handed to the SMTP server, and what is known of its fate after."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiosmtplib import (
    SMTP,
    SMTPAuthenticationError,
    SMTPException,
    SMTPResponseException,
)

from holdfast.core.errors import (
    ConnectError,
    ConnectRefused,
    NotConnected,
    OutcomeUnknown,
    Refused,
    SendError,
    Throttled,
)
from holdfast.platforms.email.keys import Key, Keys
from holdfast.platforms.email.line import NO_TOKEN
from holdfast.platforms.email.plugin import EmailSettings, Security
from holdfast.platforms.email.reading import domain_of

_PATIENCE = 30.0  # seconds for any one answer,
_LAST_PATIENCE = 120.0  # and for the last: a server looks into a mail before it takes it
_LATER = 60.0  # seconds: SMTP does not say how long to wait
_REFUSED = 500  # codes from here on are for good
_PROGRAM_ERRORS = (SMTPException, OSError)


class NotLetIn(NotConnected):
    """The password is not taken, or there is no token: nothing will be sent until somebody has
    mended that. `remedy`: how, where it is known."""

    def __init__(self, told: str, *, remedy: str = "") -> None:
        super().__init__(told)
        self.remedy = remedy


class Submitting:
    """Keeps nothing: each mail has a connection of its own, for they are few."""

    def __init__(self, settings: EmailSettings, keys: Keys, context: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._keys = keys
        self._context = context

    async def greet(self) -> None:
        """We are let in. Raises a `NotConnected`."""
        async with self._connected():
            pass

    async def submit(self, source: bytes, *, to: str) -> None:
        """Returns when the server has taken it. Raises a `SendError`."""
        async with self._connected() as smtp:
            self._check_size(smtp, source)
            try:
                await smtp.mail(self._settings.address)
                await smtp.rcpt(to)
            except SMTPResponseException as error:
                raise _answered(error) from error
            except _PROGRAM_ERRORS as error:
                raise NotConnected(f"the SMTP server: {error}") from error
            await self._say(smtp, source)

    async def _say(self, smtp: SMTP, source: bytes) -> None:
        try:
            await smtp.data(source, timeout=_LAST_PATIENCE)
        except SMTPResponseException as error:
            raise _answered(error) from error
        except _PROGRAM_ERRORS as error:
            told = f"the SMTP server did not say whether it took it: {error}"
            raise OutcomeUnknown(told) from error

    def _check_size(self, smtp: SMTP, source: bytes) -> None:
        """https://www.rfc-editor.org/rfc/rfc1870: what is too large is not even said."""
        most = smtp.esmtp_extensions.get("size", "").strip()
        if most.isdigit() and 0 < int(most) < len(source):
            raise Refused(
                f"the mail has {len(source)} bytes, and {self._settings.smtp_host} takes {most}"
            )

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[SMTP]:
        key = await self._key()
        smtp = self._client(key)
        try:
            await self._enter(smtp, key)
            yield smtp
            with suppress(*_PROGRAM_ERRORS):  # it is said and taken: a goodbye changes nothing
                await smtp.quit(timeout=_PATIENCE)
        finally:
            smtp.close()

    async def _key(self) -> Key | None:
        if not self._settings.smtp_login:
            return None
        try:
            return await self._keys.key()
        except ConnectRefused as error:
            raise NotLetIn(str(error), remedy=error.remedy) from error
        except ConnectError as error:
            raise NotConnected(str(error)) from error

    async def _enter(self, smtp: SMTP, key: Key | None) -> None:
        host = self._settings.smtp_host
        try:
            await smtp.connect()
        except SMTPAuthenticationError as error:
            told = f"{host}: {error.message}"
            if error.code < _REFUSED or key is None or not self._keys.refused(key):
                raise NotConnected(told) from error
            raise NotLetIn(told, remedy=NO_TOKEN if key.is_token else "") from error
        except (*_PROGRAM_ERRORS, ValueError) as error:
            raise NotConnected(f"{host}: {error}") from error

    def _client(self, key: Key | None) -> SMTP:
        settings = self._settings

        async def token() -> str:
            return "" if key is None else key.secret.reveal()

        by_token = key is not None and key.is_token
        return SMTP(
            hostname=settings.smtp_host,
            port=settings.port_of_smtp(),
            username=(settings.username or settings.address) if key is not None else None,
            password=None if key is None or by_token else key.secret.reveal(),
            oauth_token_generator=token if by_token else None,
            local_hostname=domain_of(settings.address),
            timeout=_PATIENCE,
            use_tls=settings.smtp_security is Security.TLS,
            start_tls=settings.smtp_security is Security.STARTTLS,
            tls_context=self._context if settings.smtp_security is not Security.PLAIN else None,
        )


def _answered(error: SMTPResponseException) -> SendError:
    """https://www.rfc-editor.org/rfc/rfc5321#section-4.2.1: nothing was taken in either case."""
    told = f"the SMTP server says {error.code} {error.message}"
    if error.code >= _REFUSED:
        return Refused(told)
    return Throttled(told, retry_after=_LATER)
