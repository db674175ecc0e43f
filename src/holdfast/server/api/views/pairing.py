"""Wire types of pairing: open requests and paired people."""

from typing import Annotated

import msgspec

from holdfast.gateway.inbound.pairing import PairingService

PrincipalName = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class PairingRequestView(msgspec.Struct, frozen=True, kw_only=True):
    """A user who has a code. `user_name` is chosen by the user, and not verified."""

    principal: str
    platform: str
    account: str
    user_id: str
    user_name: str | None
    asked_at: float
    expires_at: float


class PairedUserView(msgspec.Struct, frozen=True, kw_only=True):
    """A user who was paired with a code; users allowed in the configuration are not listed."""

    principal: str
    platform: str
    account: str
    user_id: str
    user_name: str | None
    since: float
    approved_by: str


class PairingView(msgspec.Struct, frozen=True, kw_only=True):
    """`locked_until`: no code is accepted before, after too many wrong ones; null: not locked."""

    requests: list[PairingRequestView]
    users: list[PairedUserView]
    locked_until: float | None


class PairingCode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As shown to the user; spaces, the hyphen and case do not matter."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class PairingTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`platform:account:user`, or the id of the user if it is unambiguous."""

    who: PrincipalName


def pairing_view(pairing: PairingService) -> PairingView:
    return PairingView(
        requests=[
            PairingRequestView(
                principal=each.principal,
                platform=each.address.platform,
                account=each.address.account,
                user_id=each.user_id,
                user_name=each.user_name,
                asked_at=each.asked_at,
                expires_at=each.expires_at,
            )
            for each in pairing.pending()
        ],
        users=[
            PairedUserView(
                principal=each.principal,
                platform=each.address.platform,
                account=each.address.account,
                user_id=each.user_id,
                user_name=each.user_name,
                since=each.since,
                approved_by=each.let_in_by,
            )
            for each in pairing.paired_users.users()
        ],
        locked_until=pairing.locked_until(),
    )
