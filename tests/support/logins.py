"""A browser login for listeners that are built in the process of a test."""

from pathlib import Path

from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.server.auth.login import BrowserLogin
from holdfast.server.auth.tokens import ApiTokens


def make_login(home: Path, *, clock: Clock, token: str = "t", key: str = "k") -> BrowserLogin:
    return BrowserLogin(
        Secret(token),
        tokens=ApiTokens(home / "tokens.json", clock=clock),
        key=Secret(key),
        ended=home / "ended_logins.json",
        clock=clock,
    )
