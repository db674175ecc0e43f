"""What every lane, turn and command works with: made once, by the gateway, and handed down."""

from typing import Protocol

import msgspec

from holdfast.agent.auxiliary import Auxiliary
from holdfast.core.bench import Bench
from holdfast.core.crash import Crash
from holdfast.core.ids import SessionId
from holdfast.core.inbox import BusyMode
from holdfast.core.judgement import Judge
from holdfast.core.ports import Clock, NewId, Store
from holdfast.core.settings import Settings
from holdfast.core.source import Source
from holdfast.gateway.agents import Agents
from holdfast.gateway.announcing import Announcer
from holdfast.gateway.cache import AgentCache
from holdfast.gateway.children import Children
from holdfast.gateway.doors import Doors
from holdfast.gateway.feeds import Feeds
from holdfast.gateway.in_force import InForce
from holdfast.gateway.jobs import Jobs
from holdfast.gateway.memory import Memory
from holdfast.gateway.messenger import Messenger
from holdfast.gateway.notices import Notices
from holdfast.gateway.outreach import Outreach
from holdfast.gateway.quiet import Quiet
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.replies import Replies
from holdfast.gateway.signs import Signs
from holdfast.gateway.streaming import Streaming
from holdfast.gateway.tally import Tally
from holdfast.gateway.titles import Titles
from holdfast.gateway.traces import Traces
from holdfast.gateway.watchers import Watchers


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
