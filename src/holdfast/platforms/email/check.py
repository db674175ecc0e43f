"""Asking both mail servers whether they let us in."""

from holdfast.core.errors import ConnectRefused
from holdfast.core.ports.door import Known, Opening
from holdfast.platforms.email.plugin import EmailSettings


async def check(opening: Opening[EmailSettings]) -> Known:
    """Raises the `ConnectError` that says what is wrong with which."""
    try:
        from holdfast.platforms.email.connection import begun
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the libraries that speak with mail servers are not installed ({error})",
            remedy="pip install 'holdfast[email]'",
        ) from error
    async with begun(opening, lambda: None, keeps=False):
        address = opening.settings.address
    return Known(name=address, at=f"mailto:{address}")
