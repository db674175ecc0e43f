"""The tools `send_message` and `send_file`: to the current chat before the answer, or to another
chat."""

from typing import Annotated

import msgspec

from holdfast.core.messages.outbox import HERE, OutgoingMessage, SendNotPossible
from holdfast.core.turns.external import Effect
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema

_FAILURE_NOTE = "If the platform refuses it, a system note will tell you."


class SendMessageArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    to: Annotated[str, msgspec.Meta(min_length=1, max_length=600)] = HERE
    file: str = ""


class SendMessageTool:
    """Sends a message; offered if a platform of this gateway can send. A call sends at most once:
    after a crash, its delivery is found in the outbox, or is made then. To another chat, a person
    is asked first unless the configuration names the chat; to most chats it is refused."""

    schema = make_schema(
        "send_message",
        "Send a message at once. to: here (this chat, before your answer), home (the chat for "
        "news of the gateway) or platform:chat; a person may have to allow it. file: a path in "
        "the workspace.",
        SendMessageArguments,
    )
    toolset = "messages"
    replay = ReplayClass.ATTACH
    danger = Danger.OUTSIDE

    def chat(self, arguments: Arguments) -> str | None:
        asked = _try_decode(arguments)
        return None if asked is None else asked.to

    def message_text(self, arguments: Arguments) -> str | None:
        asked = _try_decode(arguments)
        if asked is None:
            return None
        file = f"\n[a file: {asked.file}]" if asked.file else ""
        return f"to {asked.to}:\n{asked.text}{file}"

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        asked = decode(SendMessageArguments, arguments)
        if context.sender is None:
            raise ToolFailed("nothing can be sent from here")
        letter = OutgoingMessage(to=asked.to, text=asked.text, path=asked.file)
        try:
            chat = await context.sender.send_message(context.call_id, letter)
        except SendNotPossible as error:
            raise ToolFailed(str(error)) from None
        return ToolOutput(text=_queued_text(asked, chat))

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        asked = decode(SendMessageArguments, arguments)
        if context.sender is None or not await context.sender.was_queued(context.call_id):
            return None
        return ToolOutput(text=_queued_text(asked, asked.to))


def _queued_text(asked: SendMessageArguments, chat: str) -> str:
    """What is true when the tool returns: the platform has not seen the message yet."""
    if asked.file:
        return f"Queued for {chat}, with the file {asked.file}. {_FAILURE_NOTE}"
    return f"Queued for {chat}."


def _try_decode(arguments: Arguments) -> SendMessageArguments | None:
    try:
        return decode(SendMessageArguments, arguments)
    except ToolFailed:
        return None


class SendFileArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(min_length=1)]
    caption: Annotated[str, msgspec.Meta(max_length=500)] = ""


class SendFileTool:
    """Sends a file to the chat; offered if a platform of this gateway can send files. A call sends
    at most once: after a crash, its delivery is found in the outbox, or is made then."""

    schema = make_schema(
        "send_file",
        "Send a file of the workspace to this chat, with a caption under it.",
        SendFileArguments,
    )
    toolset = "files"
    replay = ReplayClass.ATTACH
    danger = Danger.OUTSIDE

    def effect(self, arguments: Arguments) -> Effect | None:
        return None  # the file goes to the people of this conversation

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
    return ToolOutput(text=f"{asked.path} is queued for this chat. {_FAILURE_NOTE}")
