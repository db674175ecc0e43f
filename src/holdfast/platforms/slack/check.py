"""Asking Slack whose tokens those are."""

from holdfast.core.ports.door import AccountIdentity, PluginContext
from holdfast.platforms.slack.api import SlackClient
from holdfast.platforms.slack.plugin import SlackSettings
from holdfast.platforms.slack.scopes import WRITE_SCOPE, missing_scope_error, missing_scope_warnings
from holdfast.platforms.slack.wire import SlackIdentity, SocketUrl


async def check_account(context: PluginContext[SlackSettings]) -> AccountIdentity:
    """Both tokens are shown to Slack; the ticket for a socket that it gives for the second one is
    not used. Raises the `SendError` that says what is wrong with which, and `ConnectRefused` where
    the app may not even write."""
    api = SlackClient(context.secrets["token"], base_url=context.settings.base_url)
    async with api.open(lambda: None, lambda _: None):
        me = await api.call_form("auth.test", SlackIdentity)
        if (app_token := context.secrets.get("app_token")) is not None:
            await api.call_with_token(app_token, "apps.connections.open", SocketUrl)
    if api.scopes and WRITE_SCOPE not in api.scopes:
        raise missing_scope_error(WRITE_SCOPE)
    return AccountIdentity(name=f"@{me.user}", missing_grants=missing_scope_warnings(api.scopes))
