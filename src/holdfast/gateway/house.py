"""What every lane, turn and command works with: made once, by the gateway, and handed down."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.bench import Bench
from holdfast.core.crash import Crash
from holdfast.core.ids import SessionId
from holdfast.core.inbox import BusyMode
from holdfast.core.ports import Clock, NewId, Store
from holdfast.core.settings import Settings
from holdfast.gateway.agents import Agents
from holdfast.gateway.announcing import Announcer
from holdfast.gateway.cache import AgentCache
from holdfast.gateway.feeds import Feeds
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.replies import Replies
from holdfast.gateway.watchers import Watchers


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    settings: Settings
    store: Store
    clock: Clock
    new_id: NewId
    crash: Crash
    redact: Redaction
    watchers: Watchers
    feeds: Feeds
    replies: Replies
    announcer: Announcer
    agents: Agents
    cache: AgentCache
    bench: Callable[[SessionId], Bench]

    def busy_mode(self, platform: str) -> BusyMode:
        """What a message does to a running turn, where the message itself does not say."""
        settings = self.settings.platforms.get(platform)
        own = settings.busy_mode if settings else None
        return own or self.settings.gateway.busy_mode
