"""Trust: who may vouch for a server."""

import ssl
from pathlib import Path

from holdfast.core.errors import ConnectRefused
from holdfast.platforms.xmpp.plugin import XmppSettings


def make_tls_context(settings: XmppSettings, *, table: str) -> ssl.SSLContext:
    """Reads files. Raises `ConnectRefused` where the one that was named holds no certificates."""
    if not settings.tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nobody is asked for anything
    if not settings.ca_file:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=str(Path(settings.ca_file).expanduser()))
    except OSError as error:
        raise ConnectRefused(
            f"{settings.ca_file} holds no certificates that can be read: {error}",
            remedy=f"mend {table}.ca_file",
        ) from error
