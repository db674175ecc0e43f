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
    SendError,
    SendRejected,
    Throttled,
)
from holdfast.platforms.email.keys import CredentialProvider, MailCredential
from holdfast.platforms.email.line import TOKEN_REMEDY
from holdfast.platforms.email.plugin import ConnectionSecurity, EmailSettings
from holdfast.platforms.email.reading import domain_of

_RESPONSE_TIMEOUT = 30.0  # seconds for any one answer,
_DATA_TIMEOUT = 120.0  # and for the last: a server looks into a mail before it takes it
_DEFAULT_RETRY_AFTER = 60.0  # seconds: SMTP does not say how long to wait
_FIRST_PERMANENT_CODE = 500  # codes from here on are for good
_LIBRARY_ERRORS = (SMTPException, OSError)


class SmtpLoginRefused(NotConnected):
    """The password is not taken, or there is no token: nothing will be sent until somebody has
    mended that. `remedy`: how, where it is known."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class SmtpClient:
    """Keeps nothing: each mail has a connection of its own, for they are few."""

    def __init__(
        self,
        settings: EmailSettings,
        credentials: CredentialProvider,
        tls_context: ssl.SSLContext | None,
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._tls_context = tls_context

    async def check_login(self) -> None:
        """We are let in. Raises a `NotConnected`."""
        async with self._open():
            pass

    async def submit(self, source: bytes, *, to: str) -> None:
        """Returns when the server has taken it. Raises a `SendError`."""
        async with self._open() as smtp:
            self._check_size(smtp, source)
            try:
                await smtp.mail(self._settings.address)
                await smtp.rcpt(to)
            except SMTPResponseException as error:
                raise _to_send_error(error) from error
            except _LIBRARY_ERRORS as error:
                raise NotConnected(f"the SMTP server: {error}") from error
            await self._send_data(smtp, source)

    async def _send_data(self, smtp: SMTP, source: bytes) -> None:
        try:
            await smtp.data(source, timeout=_DATA_TIMEOUT)
        except SMTPResponseException as error:
            raise _to_send_error(error) from error
        except _LIBRARY_ERRORS as error:
            told = f"the SMTP server did not say whether it took it: {error}"
            raise OutcomeUnknown(told) from error

    def _check_size(self, smtp: SMTP, source: bytes) -> None:
        """https://www.rfc-editor.org/rfc/rfc1870: what is too large is not even said."""
        most = smtp.esmtp_extensions.get("size", "").strip()
        if most.isdigit() and 0 < int(most) < len(source):
            raise SendRejected(
                f"the mail has {len(source)} bytes, and {self._settings.smtp_host} takes {most}"
            )

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[SMTP]:
        key = await self._credential()
        smtp = self._make_client(key)
        try:
            await self._connect(smtp, key)
            yield smtp
            with suppress(*_LIBRARY_ERRORS):  # it is said and taken: a goodbye changes nothing
                await smtp.quit(timeout=_RESPONSE_TIMEOUT)
        finally:
            smtp.close()

    async def _credential(self) -> MailCredential | None:
        if not self._settings.smtp_login:
            return None
        try:
            return await self._credentials.current()
        except ConnectRefused as error:
            raise SmtpLoginRefused(str(error), remedy=error.remedy) from error
        except ConnectError as error:
            raise NotConnected(str(error)) from error

    async def _connect(self, smtp: SMTP, credential: MailCredential | None) -> None:
        host = self._settings.smtp_host
        try:
            await smtp.connect()
        except SMTPAuthenticationError as error:
            told = f"{host}: {error.message}"
            if (
                error.code < _FIRST_PERMANENT_CODE
                or credential is None
                or not self._credentials.report_refused(credential)
            ):
                raise NotConnected(told) from error
            raise SmtpLoginRefused(
                told, remedy=TOKEN_REMEDY if credential.is_token else ""
            ) from error
        except (*_LIBRARY_ERRORS, ValueError) as error:
            raise NotConnected(f"{host}: {error}") from error

    def _make_client(self, credential: MailCredential | None) -> SMTP:
        settings = self._settings

        async def token() -> str:
            return "" if credential is None else credential.secret.reveal()

        by_token = credential is not None and credential.is_token
        return SMTP(
            hostname=settings.smtp_host,
            port=settings.effective_smtp_port(),
            username=(settings.username or settings.address) if credential is not None else None,
            password=None if credential is None or by_token else credential.secret.reveal(),
            oauth_token_generator=token if by_token else None,
            local_hostname=domain_of(settings.address),
            timeout=_RESPONSE_TIMEOUT,
            use_tls=settings.smtp_security is ConnectionSecurity.TLS,
            start_tls=settings.smtp_security is ConnectionSecurity.STARTTLS,
            tls_context=self._tls_context
            if settings.smtp_security is not ConnectionSecurity.PLAIN
            else None,
        )


def _to_send_error(error: SMTPResponseException) -> SendError:
    """https://www.rfc-editor.org/rfc/rfc5321#section-4.2.1: nothing was taken in either case."""
    told = f"the SMTP server says {error.code} {error.message}"
    if error.code >= _FIRST_PERMANENT_CODE:
        return SendRejected(told)
    return Throttled(told, retry_after=_DEFAULT_RETRY_AFTER)
