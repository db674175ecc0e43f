"""People: what those are called who speak in a channel, for events tell only their ids."""

import asyncio
import logging

from holdfast.core.errors import Refused, SendError
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.wire import UserInfo

log = logging.getLogger(__name__)

SCOPE = "users:read"
_MOST = 1000
_PATIENCE = 2.0  # seconds: Slack waits three for a word, and a name is not worth a repetition


class People:
    """Owns the names that were asked for while the app is connected."""

    def __init__(self, api: WebApi) -> None:
        self._api = api
        self._names: dict[str, str | None] = {}

    async def name_of(self, user_id: str) -> str | None:
        """None: it cannot be had, and the id has to do."""
        if user_id in self._names:
            return self._names[user_id]
        if SCOPE not in self._api.scopes:
            return None
        try:
            async with asyncio.timeout(_PATIENCE):
                user = (await self._api.ask("users.info", UserInfo, user=user_id)).user
        except Refused:  # a bot, or somebody of another workspace
            return self._keep(user_id, None)
        except (SendError, TimeoutError) as error:
            log.debug("No name for %s: %s", user_id, error, extra={"action": "name_unknown"})
            return None
        profile = user.profile
        return self._keep(user_id, profile.display_name or profile.real_name or user.name or None)

    def _keep(self, user_id: str, name: str | None) -> str | None:
        if len(self._names) >= _MOST:
            del self._names[next(iter(self._names))]
        self._names[user_id] = name
        return name
