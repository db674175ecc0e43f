"""Checks of formatting: no text of an agent is refused, up to the declared maximum length."""

import msgspec

from holdfast.core.messages.outbox import MessageEdit
from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.ports.platform import SupportsEditing, SupportsRendering
from holdfast.testing.conformance.assertions import connected, make_outbound, wait_for
from holdfast.testing.conformance.harness import ConformanceCheck, PlatformHarness, require
from holdfast.testing.intake import RecordingIntake

# Each is difficult in one format or another; an agent may write any of them.
DIFFICULT_TEXTS = (
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


@ConformanceCheck
async def no_text_of_an_agent_is_refused_for_its_format(harness: PlatformHarness) -> None:
    """Formatting: no input produces an invalid message, sent or edited. One message of ours may be
    several at the vendor, where a message is one line."""
    platform = harness.platform
    async with connected(harness, RecordingIntake()):
        for number, text in enumerate(DIFFICULT_TEXTS):
            marked = make_outbound(
                harness, f"{text}\n\nmark{number}", delivery=f"difficult{number}"
            )
            receipt = await platform.send(marked)
            await _wait_until_shown(harness, f"mark{number}")
            if isinstance(platform, SupportsEditing) and platform.capabilities.edit:
                change = MessageEdit(
                    delivery_id=marked.delivery_id,
                    address=marked.address,
                    platform_message_id=receipt.platform_message_id,
                    text=f"{text}\n\nchanged{number}",
                )
                await platform.edit(change)
                await _wait_until_shown(harness, f"changed{number}")
    assert all(each.text.strip() for each in await harness.bot_messages())


@ConformanceCheck
async def a_message_of_maximum_length_is_accepted_even_when_marked_as_repeated(
    harness: PlatformHarness,
) -> None:
    """Chunking: the declared maximum is what the vendor accepts, in its own units."""
    platform, can = harness.platform, harness.platform.capabilities
    require(can.max_length is not None, "it declares no maximum length")
    assert can.max_length is not None
    emoji = can.max_length // {LengthUnit.UTF16: 2}.get(can.length_unit, 4)
    async with connected(harness, RecordingIntake()):
        for number, text in enumerate(("x" * can.max_length, "🦆" * emoji)):
            assert not isinstance(platform, SupportsRendering) or platform.fits(text)
            await platform.send(
                msgspec.structs.replace(
                    make_outbound(harness, text, delivery=f"d{number}"),
                    may_be_duplicate=bool(number),
                )
            )
            await _wait_until_shown(harness, text)


async def _wait_until_shown(harness: PlatformHarness, text: str) -> None:
    await wait_for(harness.bot_messages, lambda read: any(text in each.text for each in read))
