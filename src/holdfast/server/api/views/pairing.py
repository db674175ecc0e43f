"""Wire types of pairing: open requests and paired people."""

from typing import Annotated

import msgspec

from holdfast.gateway.inbound.pairing import PairingService

PrincipalName = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class PairingRequestView(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who has a code. `user_name` is what they call themselves: anybody can."""

    principal: str
    platform: str
    account: str
    user_id: str
    user_name: str | None
    asked_at: float
    expires_at: float


class PairedUserView(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who was let in by a code; those of the configuration are not here."""

    principal: str
    platform: str
    account: str
    user_id: str
    user_name: str | None
    since: float
    approved_by: str


class PairingView(msgspec.Struct, frozen=True, kw_only=True):
    """`locked_until`: so many wrong codes were tried that none is taken before; null: they are."""

    requests: list[PairingRequestView]
    users: list[PairedUserView]
    locked_until: float | None


class PairingCode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As the person got it; spaces, the hyphen and small letters do not matter."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class PairingTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`platform:account:user`, or the person's id where that is enough."""

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
