"""The signature of an agent: equal inputs, equal signature, in any process."""

import hashlib
from collections.abc import Iterable

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.secret import Secret


def agent_signature(
    *,
    provider: str,
    model: str,
    api_mode: str,
    base_url: str,
    api_key: Secret | None,
    toolsets: Iterable[str],
    instructions: str,
    max_steps: int,
    principal: PrincipalId | None = None,
    extra: object = None,
) -> str:
    """What an agent was built from, as one hash.

    The whole key goes in, hashed on its own first: two keys that share a long prefix differ,
    and nothing here could be turned back into one. Toolsets count in any order. `shape` is
    whatever else shapes its prompt or its tools, as JSON has it.
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
        extra,
    )
    signature = hashlib.sha256(msgspec.json.encode(signed, order="deterministic")).hexdigest()
    return signature if principal is None else signature_for_principal(signature, principal)


def signature_for_principal(signature: str, principal: PrincipalId) -> str:
    """The signature of what belongs to one person; cheap, for it is asked for with every turn."""
    return hashlib.sha256(f"{signature}\n{principal}".encode()).hexdigest()


def signature_for_toolsets(signature: str, toolsets: Iterable[str]) -> str:
    """The signature of what may use no more than these toolsets, which count in any order."""
    named = " ".join(sorted(set(toolsets)))
    return hashlib.sha256(f"{signature}\nconfined to {named}".encode()).hexdigest()
