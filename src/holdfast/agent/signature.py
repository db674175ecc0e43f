"""The signature of an agent: equal inputs, equal signature, in any process."""

import hashlib
from collections.abc import Iterable

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.secret import Secret


def sign(
    *,
    provider: str,
    model: str,
    api_mode: str,
    base_url: str,
    api_key: Secret | None,
    toolsets: Iterable[str],
    instructions: str,
    max_steps: int,
    principal: PrincipalId | None,
) -> str:
    """What an agent was built from, as one hash.

    The whole key goes in, hashed on its own first: two keys that share a long prefix differ,
    and nothing here could be turned back into one. Toolsets count in any order.
    """
    key = hashlib.sha256(api_key.reveal().encode()).hexdigest() if api_key else ""
    signed = (
        provider,
        model,
        api_mode,
        base_url,
        key,
        sorted(set(toolsets)),
        instructions,
        max_steps,
        principal or "",
    )
    return hashlib.sha256(msgspec.json.encode(signed)).hexdigest()
