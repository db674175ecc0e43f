"""What every lane, turn and command works with: made once, by the gateway, and handed down."""

from typing import Protocol

import msgspec

from holdfast.agent.auxiliary import Auxiliary
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import Crash
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.source import Source
from holdfast.core.people.judgement import Judge
from holdfast.core.ports.protocols import Clock, NewId, Store
from holdfast.core.ports.sandbox import Bench
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.agents.agents import Agents
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.agents.memory import Memory
from holdfast.gateway.children import Children
from holdfast.gateway.jobs.jobs import Jobs
from holdfast.gateway.live.counters import Tally
from holdfast.gateway.live.feeds import Feeds
from holdfast.gateway.live.subscriptions import Watchers
from holdfast.gateway.live_settings import InForce
from holdfast.gateway.notify.proactive import Messenger
from holdfast.gateway.notify.send_policy import Outreach
from holdfast.gateway.outbound.post_commit import Announcer
from holdfast.gateway.outbound.quiet_chats import Quiet
from holdfast.gateway.outbound.reactions import Signs
from holdfast.gateway.outbound.replies import Replies
from holdfast.gateway.outbound.stream_factory import Streaming
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.titles import Titles
from holdfast.gateway.traces import Traces
from holdfast.gateway.turns.busy_notices import Notices


class Benches(Protocol):
    def __call__(self, session_id: SessionId, *, shell: str = "") -> Bench: ...


class House(msgspec.Struct, frozen=True, kw_only=True):
    in_force: InForce
    store: Store
    clock: Clock
    new_id: NewId
    crash: Crash
    redact: Redaction
    watchers: Watchers
    feeds: Feeds
    children: Children
    jobs: Jobs
    doors: Doors
    replies: Replies
    streaming: Streaming
    notices: Notices
    signs: Signs
    quiet: Quiet
    announcer: Announcer
    agents: Agents
    cache: AgentCache
    memory: Memory
    auxiliary: Auxiliary
    titles: Titles
    bench: Benches
    judge: Judge
    tally: Tally
    messenger: Messenger
    outreach: Outreach
    traces: Traces | None = None  # None: nobody wants any

    @property
    def settings(self) -> Settings:
        """Those that hold at this instant: whoever needs some of them that fit together takes
        them once."""
        return self.in_force.settings

    def busy_mode(self, source: Source) -> BusyMode:
        """What a message from there does to a running turn, where it does not say so itself."""
        settings = self.settings.account(source.platform, source.account)
        own = settings.busy_mode if settings else None
        return own or self.settings.gateway.busy_mode
