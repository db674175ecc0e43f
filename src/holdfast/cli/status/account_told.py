"""How an account of a platform stands, in a line of words."""

from holdfast.cli.common.output import format_duration
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.facts import AccountStatus


def account_text(platform: AccountStatus, *, now: float) -> str:
    """Its state, its last proof, why it is not connected, and when it is tried next."""
    parts = [_account_state(platform, now)]
    if platform.last_ok_at is not None and platform.state is not AccountState.PAUSED:
        parts.append(f"answered {_positive_duration(now - platform.last_ok_at)} ago")
    if platform.next_attempt_at is not None:
        parts.append(f"tried again in {_positive_duration(platform.next_attempt_at - now)}")
    text = ", ".join(parts)
    return f"{text}: {platform.error}" if platform.error else text


def _account_state(platform: AccountStatus, now: float) -> str:
    if platform.connected(now):
        return "connected"
    match platform.state:
        case AccountState.CONNECTED:
            if platform.error:
                return "not connected"
            return "not proven yet" if platform.last_ok_at is None else "silent"
        case AccountState.NEW:
            return "not tried yet"
        case AccountState.BLOCKED:
            return "refused for good"
    return str(platform.state)


def _positive_duration(seconds: float) -> str:
    return format_duration(max(0.0, seconds))
