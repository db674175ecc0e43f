"""What a gateway is made of: every part comes in from outside."""

from collections.abc import Callable, Sequence
from random import random
from typing import Protocol

import msgspec

from holdfast.agent.memory.guarded import USUAL_LIMITS, Limits
from holdfast.agent.memory.notes import Notes
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import Crash
from holdfast.core.ids import SessionId
from holdfast.core.ops.tracing import Spans
from holdfast.core.people.judgement import Judge
from holdfast.core.people.memory import MemoryProvider
from holdfast.core.ports.protocols import Alarm, Clock, Lifecycle, NewId, Platform, Store
from holdfast.core.ports.sandbox import Bench
from holdfast.core.secret import Secret
from holdfast.core.sessions.session import ProcessRow
from holdfast.core.turns.model import ModelChoice
from holdfast.gateway.accounts.backoff import USUAL_PATIENCE, Patience
from holdfast.gateway.accounts.connection import NO_CLAIMS, Claims
from holdfast.gateway.agents.outfit import Lease, Outfit
from holdfast.gateway.inbound.receiving import PutFile
from holdfast.gateway.lifecycle.recovery import Adopter
from holdfast.gateway.outbound.files import DropFile, ReadFile
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.closing import Holder
from holdfast.tools.registry import Toolbox


class Workbenches(Adopter, Holder, Protocol):
    """What the gateway asks of whoever owns the runners."""

    def bench(self, session_id: SessionId, *, shell: str = "") -> Bench:
        """`shell`: with a terminal of that name, apart from the session's own."""
        ...

    async def end_all(self) -> None: ...
    async def detach(self) -> None:
        """Let go of everything, and leave it running for a successor."""
        ...

    async def processes(self, session_id: SessionId) -> Sequence[ProcessRow]: ...


class Stoppable(Holder, Protocol):
    """A holder whose things all end with the gateway."""

    async def end_all(self) -> None: ...


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    store: Store
    platforms: Sequence[Platform]
    runners: Workbenches
    toolbox: Toolbox
    holders: Sequence[Stoppable] = ()  # who else holds something for sessions: browsers
    lease: Lease
    model: ModelChoice
    api_key: Secret | None
    spare_keys: Sequence[Secret] = ()  # of the models that stand in for it
    secrets: Sequence[Secret]
    redact: Redaction | None = None  # None: one of the gateway's own, which knows them
    clock: Clock
    new_id: NewId
    crash: Crash
    progress: Callable[[str], None]
    judge: Judge
    lifecycle: Lifecycle | None = None  # None: nobody here can restart it
    alarm: Alarm | None = None  # None: one that sleeps, and does not hear of a clock that is set
    read_file: ReadFile | None = None  # None: no file is handed to people
    drop_file: DropFile | None = None  # None: what was handed in to be sent stays
    put_file: PutFile | None = None  # None: what is attached to messages is not kept
    notes: Notes | None = None  # None: the gateway's own
    memory_providers: Sequence[MemoryProvider] = ()
    memory_limits: Limits = USUAL_LIMITS
    claims: Claims = NO_CLAIMS  # on the credentials of accounts
    patience: Patience = USUAL_PATIENCE  # with accounts that do not answer
    random: Callable[[], float] = random  # from 0 to 1
    spans: Spans | None = None  # None: nobody traces messages
    trace_key: str = ""  # tells the traces of this gateway from those of others

    @property
    def outfit(self) -> Outfit:
        """What agents are made of, until another configuration is put into force."""
        return Outfit(
            settings=self.settings,
            lease=self.lease,
            model=self.model,
            api_key=self.api_key,
            spare_keys=self.spare_keys,
            toolbox=self.toolbox,
            secrets=self.secrets,
        )
