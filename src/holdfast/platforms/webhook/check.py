"""Asking a receiver whether it knows us."""

from holdfast.core.address_passwords import mask_passwords
from holdfast.core.ports.door import AccountIdentity, PluginContext
from holdfast.platforms.webhook.client import create_client
from holdfast.platforms.webhook.door import WebhookSettings


async def check_account(context: PluginContext[WebhookSettings]) -> AccountIdentity:
    """Raises the `SendError` that says what is wrong. Without a receiver there is nobody to ask:
    who posts is known when they do."""
    settings = context.settings
    if not settings.url:
        return AccountIdentity(name=f"hooks {', '.join(settings.hooks)}")
    receiver = create_client(settings, context.secrets, clock=context.clock)
    async with receiver.open(lambda: None):
        await receiver.ping(context.new_id("ping"), account=context.account)
    return AccountIdentity(name=mask_passwords(settings.url))
