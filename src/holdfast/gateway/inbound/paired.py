"""Who asked to be let in and who was: a copy of what the store has, so that nobody waits for it."""

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.people.pairing import (
    PairedPerson,
    PairingChange,
    PairingKind,
    PairingRequest,
    WrongCodes,
)
from holdfast.core.ports.library import Library


class Paired:
    """Owns the copy. It is changed by commits alone: what the store has not taken, nobody knows.

    "In" it is whoever was let in: what `Authority` asks for every message of one whom the
    configuration does not name.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._requests: dict[PrincipalId, PairingRequest] = {}
        self._people: dict[PrincipalId, PairedPerson] = {}
        self.wrong = WrongCodes()

    async def load(self) -> None:
        found = await self._library.pairings()
        self._requests = {each.principal: each for each in found.requests}
        self._people = {each.principal: each for each in found.people}
        self.wrong = found.wrong

    def __contains__(self, principal: object) -> bool:
        return principal in self._people

    def people(self) -> list[PairedPerson]:
        """Those who were let in, the first of them first."""
        return list(self._people.values())

    def pending(self, now: float) -> list[PairingRequest]:
        """Those who can still be let in, the longest waiting first."""
        return [each for each in self._requests.values() if each.pending(now)]

    def request_of(self, principal: PrincipalId) -> PairingRequest | None:
        return self._requests.get(principal)

    def asked(self, request: PairingRequest) -> None:
        """The store has it, and has forgotten those that were over by then."""
        past = [
            name for name, each in self._requests.items() if each.expires_at <= request.asked_at
        ]
        for name in (*past, request.principal):
            self._requests.pop(name, None)
        self._requests[request.principal] = request

    def changed(self, change: PairingChange) -> None:
        """The store has it."""
        if change.kind in (PairingKind.APPROVE, PairingKind.WRONG):
            self.wrong = change.wrong
        if change.person is not None:
            self._requests.pop(change.person.principal, None)
            self._people[change.person.principal] = change.person
        if change.principal is None:
            return
        if change.kind is PairingKind.REVOKE:
            self._people.pop(change.principal, None)
        elif (asked := self._requests.get(change.principal)) is not None:
            self._requests[change.principal] = msgspec.structs.replace(asked, digest=b"")
