"""Asking a homeserver whose credentials those are."""

from holdfast.core.errors import ConnectRefused, Refused
from holdfast.core.ports.door import Known, Opening
from holdfast.platforms.matrix.api import BadToken, ClientApi
from holdfast.platforms.matrix.login import log_in
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.wire import Nothing

_PATIENCE = 20.0  # seconds that an answer may take


async def check(opening: Opening[MatrixSettings]) -> Known:
    """With a password, a device is made and taken away again. Raises a `ConnectError` or a
    `SendError`."""
    api = ClientApi(opening.settings.homeserver, limit=_PATIENCE)
    async with api.open(lambda: None):
        if (token := opening.secrets.get("token")) is not None:
            api.speak_as(token.reveal())
            try:
                name = (await api.whoami()).user_id
            except BadToken as error:
                raise ConnectRefused(
                    str(error), remedy="docs/matrix.md says how to get one"
                ) from error
        else:
            name = await _logged_in(api, opening)
    return Known(name=name, at=f"https://matrix.to/#/{name}")


async def _logged_in(api: ClientApi, opening: Opening[MatrixSettings]) -> str:
    user, password = opening.settings.user, opening.secrets["password"]
    try:
        given = await log_in(api, user, password, name="Holdfast, trying its password")
    except (Refused, BadToken) as error:
        raise ConnectRefused(str(error), remedy="look at the name and the password") from error
    api.speak_as(given.access_token)
    await api.ask("POST", "/logout", Nothing, body={})
    return given.user_id
