"""The gateway that a command talks to: found by the home, asked with the home's token."""

from pathlib import Path

from holdfast.server.api.api_client import CALL_TIMEOUT, ApiClient
from holdfast.server.local.client import GatewayDown
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths


def api_client_for(home: Path, *, timeout: float = CALL_TIMEOUT) -> ApiClient:
    """A client of the home's gateway. Raises `GatewayDown` when there is none to talk to."""
    holder = read_holder(home)
    if holder is None or holder.purpose != "gateway":
        raise GatewayDown(f"No gateway is running for {home}. Start it with `holdfast run`.")
    from holdfast.config import load  # noqa: PLC0415 - who finds no gateway needs no settings
    from holdfast.system.tokens import api_token  # noqa: PLC0415 - as above

    configured = load(home).secret("platforms.api.token")
    token = api_token(Paths(home), configured=configured)
    return ApiClient(Paths(home), token=token, timeout=timeout)
