"""A quiet chat: somebody has said whether it gets answers and nothing else."""

import msgspec

from holdfast.core.ids import PrincipalId


class QuietChat(msgspec.Struct, frozen=True, kw_only=True):
    """`quiet` None: it is again as the configuration says."""

    platform: str
    account: str
    chat_id: str
    quiet: bool | None
    set_by: PrincipalId
    at: float
