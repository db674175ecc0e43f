"""The `send_file` tool: an agent gives a file of its workspace to the person it talks to."""

from typing import Annotated

import msgspec

from holdfast.core.handing import NotHanded
from holdfast.core.tool import Arguments, Danger, Replay, ToolContext, ToolFailed, ToolOutput
from holdfast.tools.arguments import decode, make_schema


class SendFileArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(min_length=1)]
    caption: Annotated[str, msgspec.Meta(max_length=500)] = ""


class SendFile:
    """Offered where a chat can take files. What was owed stays owed, so a call whose outcome was
    lost is not made again."""

    schema = make_schema(
        "send_file",
        "Send a file of the workspace to this chat, with a caption under it.",
        SendFileArguments,
    )
    toolset = "files"
    replay = Replay.NEVER
    danger = Danger.OUTSIDE

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        asked = decode(SendFileArguments, arguments)
        if context.handing is None:
            raise ToolFailed("no file can be sent from here")
        try:
            await context.handing.hand_over(asked.path, caption=asked.caption)
        except NotHanded as error:
            raise ToolFailed(str(error)) from None
        return ToolOutput(text=f"{asked.path} is on its way to the chat.")

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None
