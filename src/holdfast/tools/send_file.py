"""The `send_file` tool: an agent gives a file of its workspace to the person it talks to."""

from typing import Annotated

import msgspec

from holdfast.core.messages.handing import SendNotPossible
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema


class SendFileArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(min_length=1)]
    caption: Annotated[str, msgspec.Meta(max_length=500)] = ""


class SendFileTool:
    """Offered where a chat can take files. Handing over counts once a call: one whose outcome was
    lost is found owed, or is made again."""

    schema = make_schema(
        "send_file",
        "Send a file of the workspace to this chat, with a caption under it.",
        SendFileArguments,
    )
    toolset = "files"
    replay = ReplayClass.ATTACH
    danger = Danger.OUTSIDE

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        asked = decode(SendFileArguments, arguments)
        if context.sender is None:
            raise ToolFailed("no file can be sent from here")
        try:
            await context.sender.send_file(context.call_id, asked.path, caption=asked.caption)
        except SendNotPossible as error:
            raise ToolFailed(str(error)) from None
        return _queued_output(asked)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        asked = decode(SendFileArguments, arguments)
        if context.sender is None or not await context.sender.was_queued(context.call_id):
            return None
        return _queued_output(asked)


def _queued_output(asked: SendFileArguments) -> ToolOutput:
    return ToolOutput(text=f"{asked.path} is on its way to the chat.")
