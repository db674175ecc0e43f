"""Pairing decided: people let in by their code, told no, and sent away again."""

import asyncio
from collections.abc import Awaitable, Callable
from math import ceil

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import DeliveryId, PrincipalId
from holdfast.core.messages.outbox import DeliveryKind, NewDelivery
from holdfast.core.messages.source import sanitise_name
from holdfast.core.people.pairing import (
    LOCKOUT_SECONDS,
    MAX_WRONG_CODES,
    PairedUser,
    PairingChange,
    PairingKind,
    PairingRequest,
    WrongCodes,
    is_in_future,
)
from holdfast.gateway.approvals.pending import succeeded
from holdfast.gateway.inbound.paired import PairedUsers
from holdfast.gateway.inbound.pairing_codes import code_matches, parse_code
from holdfast.gateway.services import Services

WELCOME_TEXT = "You are let in: write what you need. /help shows what the gateway itself can do."


class PairingRefused(HoldfastError):
    """It cannot be done, for this reason; nothing is written."""


class PairingDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be committed, and what whoever asked for it is told then."""

    change: PairingChange
    text: str

    @property
    def wrong(self) -> bool:
        """The code was nobody's: what is committed is that it was tried."""
        return self.change.kind is PairingKind.WRONG


class PairingService:
    """Decides, one at a time: two wrong codes tried at once count as two. Owns nothing else; who
    asked and who was let in is in `paired`."""

    def __init__(self, services: Services, paired_users: PairedUsers) -> None:
        self._services = services
        self._deciding = asyncio.Lock()
        self.paired_users = paired_users

    def pending(self) -> list[PairingRequest]:
        return self.paired_users.pending(self._services.clock.now())

    def locked_until(self) -> float | None:
        """None: codes are taken."""
        until = self.paired_users.wrong_codes.locked_until
        return (
            until
            if is_in_future(until, self._services.clock.now(), lifetime=LOCKOUT_SECONDS)
            else None
        )

    async def approve(
        self, typed: str, *, by: PrincipalId, commit: "CommitDecision | None" = None
    ) -> PairingDecision:
        """Let in whose code it is, and tell them once. A wrong one is counted, and after a few in
        a row none is taken for a while."""
        async with self._deciding:
            self._check_not_locked()
            request = await self._request_with_code(typed)
            decided = (
                self._count_wrong_code(by=by) if request is None else self._pair(request, by=by)
            )
            return await self._commit(decided, commit)

    async def deny(
        self, name: str, *, by: str, commit: "CommitDecision | None" = None
    ) -> PairingDecision:
        """Their code is worth nothing any more, and they get no other in its time. They are not
        told: whoever asks without being known is owed nothing."""
        async with self._deciding:
            names = [each.principal for each in self.pending()]
            who = _find_principal(name, names, nobody="waits to be let in")
            at = self._services.clock.now()
            change = PairingChange(kind=PairingKind.DENY, principal=who, by=by, at=at)
            return await self._commit(
                PairingDecision(change=change, text=f"Denied: {who}."), commit
            )

    async def revoke(
        self, name: str, *, by: str, commit: "CommitDecision | None" = None
    ) -> PairingDecision:
        """From the commit on they are a stranger; what runs for them runs to its end."""
        async with self._deciding:
            names = [each.principal for each in self.paired_users.users()]
            who = _find_principal(name, names, nobody="was let in by a code")
            at = self._services.clock.now()
            change = PairingChange(kind=PairingKind.REVOKE, principal=who, by=by, at=at)
            text = f"Revoked: {who} may not talk here any more."
            return await self._commit(PairingDecision(change=change, text=text), commit)

    def on_committed(self, decision: PairingDecision) -> None:
        """The store has it: it holds from now on, and who is concerned is told."""
        self.paired_users.apply_change(decision.change)
        self._services.publisher.messages_ended((), decision.change.deliveries)

    async def _commit(
        self, decision: PairingDecision, commit: "CommitDecision | None"
    ) -> PairingDecision:
        await (commit or self._write)(decision)
        return decision

    async def _write(self, decision: PairingDecision) -> None:
        """Whether or not anybody still waits for it, what the store takes holds."""
        writing = asyncio.ensure_future(self._services.store.change_pairing(decision.change))
        writing.add_done_callback(
            lambda done: self.on_committed(decision) if succeeded(done) else None
        )
        await asyncio.shield(writing)

    def _check_not_locked(self) -> None:
        if (until := self.locked_until()) is None:
            return
        minutes = ceil((until - self._services.clock.now()) / 60)
        raise PairingRefused(
            f"No code is taken for {minutes} more minute{'s' if minutes > 1 else ''}: "
            f"{MAX_WRONG_CODES} wrong ones were tried in a row."
        )

    async def _request_with_code(self, typed: str) -> PairingRequest | None:
        if (code := parse_code(typed)) is None:
            return None
        for request in self.pending():
            if await asyncio.to_thread(code_matches, code, request.salt, request.digest):
                return request
        return None

    def _count_wrong_code(self, *, by: str) -> PairingDecision:
        now, count = self._services.clock.now(), self.paired_users.wrong_codes.count + 1
        left = MAX_WRONG_CODES - count
        wrong = WrongCodes(count=count) if left else WrongCodes(locked_until=now + LOCKOUT_SECONDS)
        change = PairingChange(kind=PairingKind.WRONG, wrong=wrong, by=by, at=now)
        more = f"{left} more wrong ones" if left > 1 else "One more wrong one"
        told = f"{more} and none is taken for an hour." if left else "None is taken for an hour."
        return PairingDecision(change=change, text=f"Nobody has this code, or it is over. {told}")

    def _pair(self, request: PairingRequest, *, by: PrincipalId) -> PairingDecision:
        now = self._services.clock.now()
        person = PairedUser(
            principal=request.principal,
            address=request.address,
            user_id=request.user_id,
            user_name=request.user_name,
            since=now,
            let_in_by=by,
        )
        told = NewDelivery(
            id=DeliveryId(self._services.new_id("dlv")),
            address=request.address,
            kind=DeliveryKind.NOTICE,
            text=WELCOME_TEXT,
        )
        change = PairingChange(kind=PairingKind.APPROVE, user=person, deliveries=(told,), at=now)
        return PairingDecision(
            change=change, text=f"{person_with_name(request)} is let in, and told so."
        )


CommitDecision = Callable[[PairingDecision], Awaitable[None]]
"""Commits the change, with whatever else, and calls `PairingService.kept` from that commit."""


def person_with_name(person: PairingRequest | PairedUser) -> str:
    """Who it is, for people to read: the name is what they say of themselves."""
    name = sanitise_name(person.user_name)
    return f"{name} ({person.principal})" if name else person.principal


def _find_principal(name: str, names: list[PrincipalId], *, nobody: str) -> PrincipalId:
    """By the whole name of a principal, or by the person's id where that is enough. Whoever is
    called as somebody else's whole name is called by their own: ids are people's to choose."""
    if name in names:
        return PrincipalId(name)
    found = [each for each in names if name == each.split(":", 2)[-1]]
    if len(found) == 1:
        return found[0]
    if found:
        raise PairingRefused(f"{name} is one of several: say which, {' or '.join(found)}.")
    raise PairingRefused(f"Nobody called {name or '(say who)'} {nobody}.")
