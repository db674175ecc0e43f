"""Words: no text of an agent is refused, and what the door declares as its length is taken."""

import msgspec

from holdfast.core.messages.outbox import Change
from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.ports.protocols import Editing, Rendering
from holdfast.testing.conformance.assertions import connected, outbound, until_told
from holdfast.testing.conformance.check import Check, needs
from holdfast.testing.conformance.ground import Ground
from holdfast.testing.intake import RecordingIntake

# What makes trouble in one format or another, as an agent may write it at any time.
NASTY = (
    "plain",
    "**bold** and _italic_ and `code` and ~~gone~~",
    "unclosed **bold and `code and [link](https://example.org",
    "```python\nprint('unclosed')",
    "<b>html</b> & <script>alert(1)</script>",
    "1. one\n2. two\n   - three\n\n> quoted\n> > twice",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "🦆👨‍👩‍👧 **🦆** [🦆](https://example.org/🦆)",
    "# heading\n\n---\n\n* * *",
    "[](https://example.org) ![alt](x.png) <https://example.org>",
    "\\*not bold\\* \\_ \\` @everyone #tag /command",
    "a\u200bb\u202ec\tend  ",
    "QUIT :bye\r\nPRIVMSG #all :hello\x01\x02",
)


@Check
async def no_text_of_an_agent_is_refused_for_its_format(ground: Ground) -> None:
    """Formatting: no input produces an invalid message, sent or changed. One message of ours may
    be several of the vendor's, where those are lines."""
    door = ground.door
    async with connected(ground, RecordingIntake()):
        for number, text in enumerate(NASTY):
            marked = outbound(ground, f"{text}\n\nmark{number}", delivery=f"nasty{number}")
            receipt = await door.send(marked)
            await _appears(ground, f"mark{number}")
            if isinstance(door, Editing) and door.capabilities.edit:
                change = Change(
                    delivery_id=marked.delivery_id,
                    address=marked.address,
                    platform_message_id=receipt.platform_message_id,
                    text=f"{text}\n\nchanged{number}",
                )
                await door.edit(change)
                await _appears(ground, f"changed{number}")
    assert all(each.text.strip() for each in await ground.read())


@Check
async def a_message_of_the_greatest_length_is_taken_also_when_it_is_marked(ground: Ground) -> None:
    """Chunking: what the door declares is what its vendor takes, in its own units."""
    door, can = ground.door, ground.door.capabilities
    needs(can.max_length is not None, "it declares no greatest length")
    assert can.max_length is not None
    signs = can.max_length // {LengthUnit.UTF16: 2}.get(can.length_unit, 4)
    async with connected(ground, RecordingIntake()):
        for number, text in enumerate(("x" * can.max_length, "🦆" * signs)):
            assert not isinstance(door, Rendering) or door.fits(text)
            await door.send(
                msgspec.structs.replace(
                    outbound(ground, text, delivery=f"d{number}"), maybe_repeated=bool(number)
                )
            )
            await _appears(ground, text)


async def _appears(ground: Ground, words: str) -> None:
    await until_told(ground.read, lambda read: any(words in each.text for each in read))
