"""The gateway: all who take, run and answer messages, and who of them knows whom."""

import logging
from typing import Any

from holdfast.agent.auxiliary import Auxiliary
from holdfast.core.ids import DeliveryId, InboxId, SessionId
from holdfast.core.ports.protocols import Lifecycle, Platform
from holdfast.core.turns.subagent import ChildKind
from holdfast.documents.documents import Documents
from holdfast.gateway.accounts.accounts import Accounts
from holdfast.gateway.accounts.connection import Ground
from holdfast.gateway.accounts.inner_door import InnerDoor
from holdfast.gateway.accounts.job_door import JobDoor
from holdfast.gateway.accounts.paused import Paused
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.agents.outfit import Outfit
from holdfast.gateway.approvals.service import Approvals
from holdfast.gateway.children import Children
from holdfast.gateway.commands.command import Command
from holdfast.gateway.commands.dispatcher import CommandDesk
from holdfast.gateway.furnishing import Built, furnish, traces_of
from holdfast.gateway.household import Household
from holdfast.gateway.inbound.authorise import Authority
from holdfast.gateway.inbound.denials import Denials
from holdfast.gateway.inbound.groups import Groups
from holdfast.gateway.inbound.intake import Gatehouse
from holdfast.gateway.inbound.paired import Paired
from holdfast.gateway.inbound.pairing import Pairing
from holdfast.gateway.inbound.receiving import Receiving
from holdfast.gateway.inbound.reception import Reception
from holdfast.gateway.inbound.strangers import Strangers
from holdfast.gateway.inbound.threshold import Threshold
from holdfast.gateway.jobs.scheduler import ClockAlarm
from holdfast.gateway.live.snapshot import standing
from holdfast.gateway.live_settings import InForce
from holdfast.gateway.notify.home_channels import Homes
from holdfast.gateway.notify.lifecycle_notices import Telling
from holdfast.gateway.outbound.delivery import Delivery
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.receipts import Receipts
from holdfast.gateway.parts import Parts
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.closing import Closing
from holdfast.gateway.sessions.expiry import Expiry
from holdfast.gateway.sessions.insisting import Insisting
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.settling import settle_children, settle_jobs
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)


class Gateway:
    """Owns nobody's state: it makes those who do, and introduces them. They do nothing before it
    runs (`running.py`), and nothing after it has stopped."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._in_force = InForce(parts.settings)
        self._children = Children(store=parts.store, clock=parts.clock, new_id=parts.new_id)
        inner: list[Platform] = [InnerDoor(kind, self._children) for kind in ChildKind]
        inner.append(JobDoor())
        self._doors = Doors([*parts.platforms, *inner], clock=parts.clock)
        self._redact = parts.redact or Redaction(parts.secrets)
        self.household = Household()
        self._tasks = self.household.tasks
        self._outgoing = OutgoingFiles(parts.read_file, redact=self._redact, drop=parts.drop_file)
        self.receipts = Receipts()
        self._traces = traces_of(parts, redact=self._redact)
        self.delivery = Delivery(
            self._doors,
            journal=parts.store,
            clock=parts.clock,
            redact=self._redact,
            crash=parts.crash,
            outgoing=self._outgoing,
            receipts=self.receipts,
            failed=self._unheard,
            traces=self._traces,
        )
        self._auxiliary = Auxiliary(parts.settings, lease=parts.lease, model=parts.model.name)
        self.house = furnish(parts, self._built())
        self.closing = Closing(self.house.cache)
        self.closing.add([parts.runners, self.house.memory, self._auxiliary, *parts.holders])
        self.lanes = Lanes(self.house, tasks=self._tasks)
        self.sessions = SessionStore(
            self.house,
            self.lanes,
            processes=parts.runners.processes,
            close=self.closing.close,
            tasks=self._tasks,
        )
        self.expiry = Expiry(
            self.house,
            self.lanes,
            self.closing,
            policies=lambda: self.sessions.policies,
            processes=parts.runners.processes,
        )
        self.lanes.on_silence = self.expiry.stirred
        self.insisting = Insisting(self.house, self.lanes, suspend=self.sessions.suspend)
        self.paired = Paired(parts.store)
        self.pairing = Pairing(self.house, self.paired)
        self.authority = authority = Authority(parts.settings, paired=self.paired)
        self.approvals = Approvals(self.house, self.lanes, authority=authority)
        self.homes = Homes(self._in_force, self._doors, library=parts.store)
        self.house.outreach.settle_in(authority, self.homes)
        self.telling = Telling(self.house, self.lanes, self.homes)
        self.desk = CommandDesk(self.house, self.lanes, authority=authority, tasks=self._tasks)
        self.reception = Reception(
            self.desk,
            self.sessions,
            approvals=self.approvals,
            children=self._children,
            watchers=self.house.watchers,
        )
        groups = Groups(parts.settings)
        self.denials = Denials(parts.store, clock=parts.clock)
        threshold = Threshold(
            authority,
            groups,
            Strangers(self.house, self.paired, denials=self.denials),
            clock=parts.clock,
        )
        self.documents = Documents()
        self.intake = Gatehouse(
            self.house,
            threshold=threshold,
            receiving=Receiving(
                self.sessions,
                in_force=self._in_force,
                documents=self.documents,
                put=parts.put_file,
                redact=self.house.redact,
            ),
            admit=self.reception.admit,
        )
        self.accounts = self._accounts_of(parts)
        self._doors.on_lost = self.accounts.lost
        self._settle_in(parts)
        self._in_force.tell(
            authority.follow,
            groups.follow,
            self.house.quiet.follow,
            self.house.cache.follow,
            self.house.memory.follow,
            self.sessions.follow,
            self.expiry.follow,
        )
        self.desk.made_by(lambda: self._commands(parts.lifecycle))

    def _commands(self, lifecycle: Lifecycle | None) -> list[Command]:
        from holdfast.gateway.commands.registry import every_command  # noqa: PLC0415 - see the desk

        return every_command(
            self.house,
            self.lanes,
            desk=self.desk,
            sessions=self.sessions,
            approvals=self.approvals,
            authority=self.authority,
            close=self.closing.close,
            insisting=self.insisting,
            homes=self.homes,
            telling=self.telling,
            pairing=self.pairing,
            lifecycle=lifecycle,
        )

    def _accounts_of(self, parts: Parts) -> Accounts:
        ground = Ground(
            intake=self.intake,
            doors=self._doors,
            claims=parts.claims,
            clock=parts.clock,
            random=parts.random,
            patience=parts.patience,
            tasks=self._tasks,
            opened=self.delivery.connected,
            gone=self.delivery.gone,
            redact=self.house.redact,
            stirred=self.house.feeds.stirred,
        )
        return Accounts(ground, Paused(parts.store, clock=parts.clock))

    def _settle_in(self, parts: Parts) -> None:
        settle_children(
            self._children,
            self.house,
            self.lanes,
            intake=self.intake,
            sessions=self.sessions,
            closing=self.closing,
            tasks=self._tasks,
        )
        self.runs, self.scheduler = settle_jobs(
            self.house,
            self.lanes,
            intake=self.intake,
            sessions=self.sessions,
            closing=self.closing,
            homes=self.homes,
            authority=self.authority,
            alarm=parts.alarm or ClockAlarm(parts.clock),
            tasks=self._tasks,
        )

    def _built(self) -> Built:
        return Built(
            in_force=self._in_force,
            doors=self._doors,
            redact=self._redact,
            delivery=self.delivery,
            outgoing=self._outgoing,
            children=self._children,
            auxiliary=self._auxiliary,
            tasks=self._tasks,
            close=self._close_session,
            traces=self._traces,
        )

    def adopt(self, outfit: Outfit) -> None:
        """Put another configuration into force, in one step: a turn that runs keeps what it began
        with, and the next one of every chat has this. What was a secret before stays one."""
        self._redact.learn(outfit.secrets)
        self.house.agents.follow(outfit)
        self._auxiliary.follow(outfit.settings, lease=outfit.lease, model=outfit.model.name)
        if self._traces is not None:
            self._traces.model = outfit.model
        self._in_force.put(outfit.settings)
        self.house.feeds.stirred()

    async def _close_session(self, session_id: SessionId) -> None:
        await self.closing.close(session_id)

    def _unheard(self, delivery_id: DeliveryId) -> None:
        self._tasks.create_task(self.approvals.undeliverable(delivery_id), name="undeliverable")

    def snapshot(self) -> dict[str, Any]:
        """What is true now, from memory alone: cheap enough to be asked often."""
        return {
            **standing(self.house, self.lanes, self.delivery),
            "homes": tuple(self.homes.all()),
        }

    def owned(self) -> frozenset[InboxId]:
        """The messages that are worked on here; an end is known here after its commit."""
        return self.house.watchers.ids
