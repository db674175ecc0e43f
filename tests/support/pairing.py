"""A gateway whose unknown senders get pairing codes."""

import re
from typing import Any

from tests.support.gateway_harness import GatewayHarness

from holdfast.testing.simulated.events import BotMessage

_CODE = re.compile(r"\b([A-Z2-9]{4}-[A-Z2-9]{4})\b")


def code_in(sent: BotMessage) -> str:
    found = _CODE.search(sent.outgoing.text)
    assert found, sent.outgoing.text
    return found[1]


async def given_code(door: GatewayHarness, user: str = "eve", *, sent: int = 1, **more: Any) -> str:
    door.say(
        "let me in, my secret is mackerel", chat=user, user=user, user_name=user.title(), **more
    )
    return code_in((await door.sent(sent))[-1])
