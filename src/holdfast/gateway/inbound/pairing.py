"""Pairing decided: people let in by their code, told no, and sent away again."""

import asyncio
from collections.abc import Awaitable, Callable
from math import ceil

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import DeliveryId, PrincipalId
from holdfast.core.messages.outbox import DeliveryKind, NewDelivery
from holdfast.core.messages.source import plain_name
from holdfast.core.people.pairing import (
    LOCKED_FOR,
    MOST_WRONG,
    PairedPerson,
    PairingChange,
    PairingKind,
    PairingRequest,
    WrongCodes,
    is_ahead,
)
from holdfast.gateway.approvals.pending import worked
from holdfast.gateway.inbound.paired import Paired
from holdfast.gateway.inbound.pairing_codes import fits, read
from holdfast.gateway.services import House

LET_IN = "You are let in: write what you need. /help shows what the gateway itself can do."


class PairingRefused(HoldfastError):
    """It cannot be done, for this reason; nothing is written."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be committed, and what whoever asked for it is told then."""

    change: PairingChange
    text: str

    @property
    def wrong(self) -> bool:
        """The code was nobody's: what is committed is that it was tried."""
        return self.change.kind is PairingKind.WRONG


class Pairing:
    """Decides, one at a time: two wrong codes tried at once count as two. Owns nothing else; who
    asked and who was let in is in `paired`."""

    def __init__(self, house: House, paired: Paired) -> None:
        self._house = house
        self._deciding = asyncio.Lock()
        self.paired = paired

    def pending(self) -> list[PairingRequest]:
        return self.paired.pending(self._house.clock.now())

    def locked_until(self) -> float | None:
        """None: codes are taken."""
        until = self.paired.wrong.locked_until
        return until if is_ahead(until, self._house.clock.now(), lasting=LOCKED_FOR) else None

    async def approve(self, typed: str, *, by: PrincipalId, keep: "Keep | None" = None) -> Decided:
        """Let in whose code it is, and tell them once. A wrong one is counted, and after a few in
        a row none is taken for a while."""
        async with self._deciding:
            self._check_open()
            request = await self._asked_with(typed)
            decided = self._wrong(by=by) if request is None else self._let_in(request, by=by)
            return await self._kept(decided, keep)

    async def deny(self, name: str, *, by: str, keep: "Keep | None" = None) -> Decided:
        """Their code is worth nothing any more, and they get no other in its time. They are not
        told: whoever asks without being known is owed nothing."""
        async with self._deciding:
            names = [each.principal for each in self.pending()]
            who = _meant(name, names, nobody="waits to be let in")
            at = self._house.clock.now()
            change = PairingChange(kind=PairingKind.DENY, principal=who, by=by, at=at)
            return await self._kept(Decided(change=change, text=f"Denied: {who}."), keep)

    async def revoke(self, name: str, *, by: str, keep: "Keep | None" = None) -> Decided:
        """From the commit on they are a stranger; what runs for them runs to its end."""
        async with self._deciding:
            names = [each.principal for each in self.paired.people()]
            who = _meant(name, names, nobody="was let in by a code")
            at = self._house.clock.now()
            change = PairingChange(kind=PairingKind.REVOKE, principal=who, by=by, at=at)
            text = f"Revoked: {who} may not talk here any more."
            return await self._kept(Decided(change=change, text=text), keep)

    def kept(self, decided: Decided) -> None:
        """The store has it: it holds from now on, and who is concerned is told."""
        self.paired.changed(decided.change)
        self._house.announcer.messages((), decided.change.deliveries)

    async def _kept(self, decided: Decided, keep: "Keep | None") -> Decided:
        await (keep or self._write)(decided)
        return decided

    async def _write(self, decided: Decided) -> None:
        """Whether or not anybody still waits for it, what the store takes holds."""
        writing = asyncio.ensure_future(self._house.store.change_pairing(decided.change))
        writing.add_done_callback(lambda done: self.kept(decided) if worked(done) else None)
        await asyncio.shield(writing)

    def _check_open(self) -> None:
        if (until := self.locked_until()) is None:
            return
        minutes = ceil((until - self._house.clock.now()) / 60)
        raise PairingRefused(
            f"No code is taken for {minutes} more minute{'s' if minutes > 1 else ''}: "
            f"{MOST_WRONG} wrong ones were tried in a row."
        )

    async def _asked_with(self, typed: str) -> PairingRequest | None:
        if (code := read(typed)) is None:
            return None
        for request in self.pending():
            if await asyncio.to_thread(fits, code, request.salt, request.digest):
                return request
        return None

    def _wrong(self, *, by: str) -> Decided:
        now, count = self._house.clock.now(), self.paired.wrong.count + 1
        left = MOST_WRONG - count
        wrong = WrongCodes(count=count) if left else WrongCodes(locked_until=now + LOCKED_FOR)
        change = PairingChange(kind=PairingKind.WRONG, wrong=wrong, by=by, at=now)
        more = f"{left} more wrong ones" if left > 1 else "One more wrong one"
        told = f"{more} and none is taken for an hour." if left else "None is taken for an hour."
        return Decided(change=change, text=f"Nobody has this code, or it is over. {told}")

    def _let_in(self, request: PairingRequest, *, by: PrincipalId) -> Decided:
        now = self._house.clock.now()
        person = PairedPerson(
            principal=request.principal,
            address=request.address,
            user_id=request.user_id,
            user_name=request.user_name,
            since=now,
            let_in_by=by,
        )
        told = NewDelivery(
            id=DeliveryId(self._house.new_id("dlv")),
            address=request.address,
            kind=DeliveryKind.NOTICE,
            text=LET_IN,
        )
        change = PairingChange(kind=PairingKind.APPROVE, person=person, deliveries=(told,), at=now)
        return Decided(change=change, text=f"{named(request)} is let in, and told so.")


Keep = Callable[[Decided], Awaitable[None]]
"""Commits the change, with whatever else, and calls `Pairing.kept` from that commit."""


def named(person: PairingRequest | PairedPerson) -> str:
    """Who it is, for people to read: the name is what they say of themselves."""
    name = plain_name(person.user_name)
    return f"{name} ({person.principal})" if name else person.principal


def _meant(name: str, names: list[PrincipalId], *, nobody: str) -> PrincipalId:
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
