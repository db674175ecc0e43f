"""Asking Slack whose tokens those are."""

from holdfast.core.ports.door import Known, Opening
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.plugin import SlackSettings
from holdfast.platforms.slack.scopes import WRITE, lacking, refused_without
from holdfast.platforms.slack.wire import Identity, Url


async def check(opening: Opening[SlackSettings]) -> Known:
    """Both tokens are shown to Slack; the ticket for a socket that it gives for the second one is
    not used. Raises the `SendError` that says what is wrong with which, and `ConnectRefused` where
    the app may not even write."""
    api = WebApi(opening.secrets["token"], base_url=opening.settings.base_url)
    async with api.open(lambda: None, lambda _: None):
        me = await api.ask("auth.test", Identity)
        if (app_token := opening.secrets.get("app_token")) is not None:
            await api.ask_with(app_token, "apps.connections.open", Url)
    if api.scopes and WRITE not in api.scopes:
        raise refused_without(WRITE)
    return Known(name=f"@{me.user}", lacks=lacking(api.scopes))
