"""Asking a receiver whether it knows us."""

from holdfast.core.address_passwords import without_passwords
from holdfast.core.ports.door import Known, Opening
from holdfast.platforms.webhook.client import receiver_of
from holdfast.platforms.webhook.door import WebhookSettings


async def check(opening: Opening[WebhookSettings]) -> Known:
    """Raises the `SendError` that says what is wrong. Without a receiver there is nobody to ask:
    who posts is known when they do."""
    settings = opening.settings
    if not settings.url:
        return Known(name=f"hooks {', '.join(settings.hooks)}")
    receiver = receiver_of(settings, opening.secrets, clock=opening.clock)
    async with receiver.open(lambda: None):
        await receiver.ping(opening.new_id("ping"), account=opening.account)
    return Known(name=without_passwords(settings.url))
