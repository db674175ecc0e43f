"""Conversations that fill the context window of a small harness."""

from typing import Any

from tests.support.gateway_harness import GatewayHarness

LONG = 1_800  # characters: 450 tokens of a window of 4,000


def long_text(name: str) -> str:
    return f"{name} ".ljust(LONG, ".")


async def ask(harness: GatewayHarness, text: str, reply: str = "", **more: Any) -> str:
    """Send a message, let the model give this reply or a long one, and return the answer."""
    harness.model.say(reply or long_text(f"re {text[:20].split()[0]}"))
    return (await harness.end_of(await harness.accept(text, **more))).text


async def fill_window(harness: GatewayHarness, *, exchanges: int = 3) -> None:
    """Exchange long messages until the next one would exceed the window."""
    for number in range(1, exchanges + 1):
        await ask(harness, long_text(f"question{number}"))
