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

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, SendError, Throttled
from holdfast.core.secret import Secret
from holdfast.platforms.email.door import EmailSettings, Security
from holdfast.platforms.email.reading import domain_of

_PATIENCE = 30.0  # seconds for any one answer,
_LAST_PATIENCE = 120.0  # and for the last: a server looks into a mail before it takes it
_LATER = 60.0  # seconds: SMTP does not say how long to wait
_REFUSED = 500  # codes from here on are for good
_PROGRAM_ERRORS = (SMTPException, OSError)


class NotLetIn(NotConnected):
    """The password is not taken: nothing will be sent until somebody has mended that."""


class Submitting:
    """Keeps nothing: each mail has a connection of its own, for they are few."""

    def __init__(
        self, settings: EmailSettings, password: Secret, context: ssl.SSLContext | None
    ) -> None:
        self._settings = settings
        self._password = password
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
        smtp = self._client()
        try:
            await self._enter(smtp)
            yield smtp
            with suppress(*_PROGRAM_ERRORS):  # it is said and taken: a goodbye changes nothing
                await smtp.quit(timeout=_PATIENCE)
        finally:
            smtp.close()

    async def _enter(self, smtp: SMTP) -> None:
        host = self._settings.smtp_host
        try:
            await smtp.connect()
        except SMTPAuthenticationError as error:
            kind = NotLetIn if error.code >= _REFUSED else NotConnected
            raise kind(f"{host}: {error.message}") from error
        except (*_PROGRAM_ERRORS, ValueError) as error:
            raise NotConnected(f"{host}: {error}") from error

    def _client(self) -> SMTP:
        settings = self._settings
        known = settings.smtp_login
        return SMTP(
            hostname=settings.smtp_host,
            port=settings.port_of_smtp(),
            username=(settings.username or settings.address) if known else None,
            password=self._password.reveal() if known else None,
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
