"""Endings: what the way in which a line was refused or broken means for the account."""

from collections.abc import Sequence

from holdfast.core.errors import AccountDisconnected, AccountInUse, ConnectError, ConnectRefused
from holdfast.platforms.xmpp.plugin import XmppSettings

_TEMPORARY_FAILURE = (
    "temporary-auth-failure"  # https://www.rfc-editor.org/rfc/rfc6120#section-6.5.10
)


def login_error(jid: str, failures: Sequence[str], *, encrypted: bool, table: str) -> ConnectError:
    """`refusals` are what the server said to each way of logging in that was tried, and
    `table` is where the configuration speaks of the account."""
    if _TEMPORARY_FAILURE in failures:
        return AccountDisconnected(f"the server of {jid} cannot check passwords for the moment")
    if failures:
        return ConnectRefused(
            f"the server does not let {jid} in ({failures[0]}): the account or its password is "
            "wrong, or it was closed",
            remedy=f"set {table}.jid and its password to those of an account that exists",
        )
    if not encrypted:
        return ConnectRefused(
            f"the server of {jid} offers no encryption, and nothing is said over a line that "
            "others can read",
            remedy="switch TLS on at the server; for one on this machine, set "
            f'{table}.host = "127.0.0.1" and {table}.tls = false',
        )
    return ConnectRefused(f"the server of {jid} offers no way to log in that is known here")


def stream_error(condition: str, text: str, settings: XmppSettings, *, table: str) -> ConnectError:
    """https://www.rfc-editor.org/rfc/rfc6120#section-4.9.3"""
    told = f"{condition} ({text})" if text else condition
    if condition == "conflict":
        return AccountInUse(
            f"another program has connected as {settings.jid}/{settings.resource}, and the server "
            "let this one go"
        )
    if condition == "host-unknown":
        return ConnectRefused(
            f"the server does not serve the domain of {settings.jid}",
            remedy=f"mend {table}.jid, or {table}.host",
        )
    return AccountDisconnected(f"the server closed the line: {told}")


def certificate_error(jid: str, error: Exception, *, table: str) -> ConnectError:
    """It may be renewed at any time, so it is tried again."""
    return AccountDisconnected(
        f"the certificate of the server of {jid} is not to be trusted: {error}. If it is vouched "
        f"for by an authority of your own, name that with {table}.ca_file"
    )
