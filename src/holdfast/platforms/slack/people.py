"""People: what those are called who speak in a channel, for events tell only their ids."""

import asyncio
import logging

from holdfast.core.errors import SendError, SendRejected
from holdfast.platforms.slack.api import SlackClient
from holdfast.platforms.slack.wire import SlackUserResponse

log = logging.getLogger(__name__)

USERS_SCOPE = "users:read"
_MAX_NAMES = 1000
_LOOKUP_TIMEOUT = 2.0  # seconds: Slack waits three for a word, and a name is not worth a repetition


class SlackUserNames:
    """Owns the names that were asked for while the app is connected."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._names: dict[str, str | None] = {}

    async def get(self, user_id: str) -> str | None:
        """None: it cannot be had, and the id has to do."""
        if user_id in self._names:
            return self._names[user_id]
        if USERS_SCOPE not in self._client.scopes:
            return None
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT):
                user = (
                    await self._client.call_form("users.info", SlackUserResponse, user=user_id)
                ).user
        except SendRejected:  # a bot, or somebody of another workspace
            return self._remember(user_id, None)
        except (SendError, TimeoutError) as error:
            log.debug("No name for %s: %s", user_id, error, extra={"action": "user_name_unknown"})
            return None
        profile = user.profile
        return self._remember(
            user_id, profile.display_name or profile.real_name or user.name or None
        )

    def _remember(self, user_id: str, name: str | None) -> str | None:
        if len(self._names) >= _MAX_NAMES:
            del self._names[next(iter(self._names))]
        self._names[user_id] = name
        return name
