"""Who asked to be let in and who was: a copy of what the store has, so that nobody waits for it."""

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.people.pairing import (
    PairedUser,
    PairingChange,
    PairingKind,
    PairingRequest,
    WrongCodes,
)
from holdfast.core.ports.library import StoreReader


class PairedUsers:
    """Owns the copy. It is changed by commits alone: what the store has not taken, nobody knows.

    "In" it is whoever was let in: what `AccessPolicy` asks for every message of one whom the
    configuration does not name.
    """

    def __init__(self, reads: StoreReader) -> None:
        self._reads = reads
        self._requests: dict[PrincipalId, PairingRequest] = {}
        self._users: dict[PrincipalId, PairedUser] = {}
        self.wrong_codes = WrongCodes()

    async def load(self) -> None:
        found = await self._reads.pairings()
        self._requests = {each.principal: each for each in found.requests}
        self._users = {each.principal: each for each in found.users}
        self.wrong_codes = found.wrong

    def __contains__(self, principal: object) -> bool:
        return principal in self._users

    def users(self) -> list[PairedUser]:
        """Those who were let in, the first of them first."""
        return list(self._users.values())

    def pending(self, now: float) -> list[PairingRequest]:
        """Those who can still be let in, the longest waiting first."""
        return [each for each in self._requests.values() if each.pending(now)]

    def request_of(self, principal: PrincipalId) -> PairingRequest | None:
        return self._requests.get(principal)

    def add_request(self, request: PairingRequest) -> None:
        """The store has it, and has forgotten those that were over by then."""
        past = [
            name for name, each in self._requests.items() if each.expires_at <= request.asked_at
        ]
        for name in (*past, request.principal):
            self._requests.pop(name, None)
        self._requests[request.principal] = request

    def apply_change(self, change: PairingChange) -> None:
        """The store has it."""
        if change.kind in (PairingKind.APPROVE, PairingKind.WRONG):
            self.wrong_codes = change.wrong
        if change.user is not None:
            self._requests.pop(change.user.principal, None)
            self._users[change.user.principal] = change.user
        if change.principal is None:
            return
        if change.kind is PairingKind.REVOKE:
            self._users.pop(change.principal, None)
        elif (asked := self._requests.get(change.principal)) is not None:
            self._requests[change.principal] = msgspec.structs.replace(asked, digest=b"")
