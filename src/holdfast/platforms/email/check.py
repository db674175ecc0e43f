"""Asking both mail servers whether they let us in."""

from holdfast.core.errors import ConnectRefused
from holdfast.core.ports.door import AccountIdentity, PluginContext
from holdfast.platforms.email.plugin import EmailSettings


async def check_account(context: PluginContext[EmailSettings]) -> AccountIdentity:
    """Raises the `ConnectError` that says what is wrong with which."""
    try:
        from holdfast.platforms.email.connection import open_connection
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the libraries that speak with mail servers are not installed ({error})",
            remedy="pip install 'holdfast[email]'",
        ) from error
    async with open_connection(context, lambda: None, save_tokens=False):
        address = context.settings.address
    return AccountIdentity(name=address, chat_link=f"mailto:{address}")
