"""Requests a pairing code as an unknown sender, and finds it in the reply."""

import re
from typing import Any

from tests.support.gateway_harness import GatewayHarness

from holdfast.testing.simulated.events import BotMessage

CODE_PATTERN = re.compile(r"\b([A-Z2-9]{4}-[A-Z2-9]{4})\b")


def code_in(sent: BotMessage) -> str:
    found = CODE_PATTERN.search(sent.outgoing.text)
    assert found, sent.outgoing.text
    return found[1]


async def request_code(
    harness: GatewayHarness, user: str = "eve", *, sent: int = 1, **more: Any
) -> str:
    harness.say(
        "let me in, my secret is mackerel", chat=user, user=user, user_name=user.title(), **more
    )
    return code_in((await harness.sent(sent))[-1])
