"""Paces: how much is asked for at once, and how long is waited for what may be late."""

import msgspec


class SyncTuning(msgspec.Struct, frozen=True, kw_only=True):
    page_size: int = 100  # events of a room in one answer
    # Seconds for which the keys of a message may be late: often they are, and nobody need hear of
    # it. Then whoever wrote it is told.
    undecrypted_notice_delay: float = 30.0


DEFAULT_TUNING = SyncTuning()
