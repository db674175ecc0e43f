"""How an account of a platform stands, in a line of words."""

from holdfast.cli.common.output import duration
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.facts import PlatformFacts


def account_told(platform: PlatformFacts, *, now: float) -> str:
    """Its state, its last proof, why it is not connected, and when it is tried next."""
    parts = [_state(platform, now)]
    if platform.proven_at is not None and platform.state is not AccountState.PAUSED:
        parts.append(f"answered {_span(now - platform.proven_at)} ago")
    if platform.next_try is not None:
        parts.append(f"tried again in {_span(platform.next_try - now)}")
    text = ", ".join(parts)
    return f"{text}: {platform.error}" if platform.error else text


def _state(platform: PlatformFacts, now: float) -> str:
    if platform.connected(now):
        return "connected"
    match platform.state:
        case AccountState.CONNECTED:
            if platform.error:
                return "not connected"
            return "not proven yet" if platform.proven_at is None else "silent"
        case AccountState.NEW:
            return "not tried yet"
        case AccountState.PARKED:
            return "refused for good"
    return str(platform.state)


def _span(seconds: float) -> str:
    return duration(max(0.0, seconds))
