"""The ports of the tools of turns: sandboxes, subagents, jobs, chats and the auxiliary model."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.agent.agent import Agent
from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.core.config.settings import DelegateSettings
from holdfast.core.ids import SessionId, TurnId
from holdfast.core.jobs.job import JobPort
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import MessageSender
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.turns.subagent import Delegation
from holdfast.gateway.jobs.service import JobService
from holdfast.gateway.jobs.turn_jobs import TurnJobs
from holdfast.gateway.notify.proactive import ProactiveSender
from holdfast.gateway.notify.send_policy import SendPolicy
from holdfast.gateway.notify.turn_sender import TurnSender
from holdfast.gateway.subagents import DelegateService, Subagents, delegation_requester


class SandboxFactory(Protocol):
    def __call__(self, session_id: SessionId, *, shell: str = "") -> Sandbox:
        """Open a sandbox of the session. With `shell`, it has a terminal of that name, apart from
        the session's own."""
        ...


class TurnTools:
    """Gives the tools of each turn their ports, for the message that the turn answers. Shared by
    all turns; owns nothing."""

    def __init__(
        self,
        sandbox: SandboxFactory,
        *,
        subagents: Subagents,
        jobs: JobService,
        sender: ProactiveSender,
        send_policy: SendPolicy,
        auxiliary: AuxiliaryClient,
    ) -> None:
        self.auxiliary = auxiliary
        self._sandbox = sandbox
        self._subagents = subagents
        self._jobs = jobs
        self._sender = sender
        self._send_policy = send_policy

    def sandbox(self, session_id: SessionId, rows: Sequence[InboxRow]) -> Sandbox:
        subagent = rows[0].inbound.subagent
        if subagent is None:
            return self._sandbox(session_id)
        return self._sandbox(subagent.sandbox_session, shell=subagent.session_id)

    def delegation(
        self, agent: Agent, row: InboxRow, turn_id: TurnId, *, limits: DelegateSettings
    ) -> Delegation:
        tools = agent.toolbox.by_name.values()
        requester = delegation_requester(
            row,
            session_id=agent.session_id,
            turn_id=turn_id,
            toolsets=list(dict.fromkeys(tool.toolset for tool in tools)),
        )
        return DelegateService(self._subagents, requester, limits=limits)

    def jobs(self, session_id: SessionId, row: InboxRow) -> JobPort:
        return TurnJobs(self._jobs, row, session_id)

    def sender(
        self,
        session_id: SessionId,
        row: InboxRow,
        turn_id: TurnId,
        *,
        workspace: SessionId,
        replies: int,
    ) -> MessageSender:
        return TurnSender(
            self._sender,
            self._send_policy,
            row,
            session_id=session_id,
            workspace=workspace,
            turn_id=turn_id,
            replies=replies,
        )
