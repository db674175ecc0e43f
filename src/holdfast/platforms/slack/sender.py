"""Sends messages, edits, files and reactions to Slack, and looks up whether a delivery has arrived.

Each message carries the id of its delivery, invisible to its readers, so that it can be found
again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import (
    Address,
    Button,
    MessageEdit,
    Outbound,
    OutboundFile,
    Receipt,
)
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.platforms.slack.client import BlocksRefused, ReactionUnchanged, SlackClient
from holdfast.platforms.slack.events import (
    SlackEmptyResponse,
    SlackHistoryMessage,
    SlackHistoryPage,
    SlackPostResponse,
    SlackUploadUrl,
)
from holdfast.platforms.text.slack import render

_METADATA_TYPE = "holdfast_delivery"
_REPEAT_NOTICE = "*(This may have reached you before.)*\n\n"
REPEAT_NOTICE_LENGTH = len(_REPEAT_NOTICE)
_MAX_LABEL_LENGTH = 75  # characters on a button
_REACTION_NAMES = {WAITING_REACTION: "eyes"}
_SETTLE_SECONDS = 2.0  # after that long, a message is in the history or was never posted
_MAX_PAGES = 10
_PAGE_SIZE = 200

Json = dict[str, Any]


def delivery_metadata(delivery_id: DeliveryId) -> dict[str, Any]:
    """https://docs.slack.dev/messaging/message-metadata"""
    return {"event_type": _METADATA_TYPE, "event_payload": {"id": delivery_id}}


def delivery_block_id(delivery_id: DeliveryId) -> str:
    """For files, which are shared without metadata; their blocks keep their ids:
    https://docs.slack.dev/reference/block-kit/blocks/rich-text-block."""
    return f"{_METADATA_TYPE}:{delivery_id}"


def carries_delivery(message: SlackHistoryMessage, delivery_id: DeliveryId) -> bool:
    metadata = message.metadata
    if metadata is not None and metadata.event_type == _METADATA_TYPE:
        return metadata.event_payload.get("id") == delivery_id
    return any(block.block_id == delivery_block_id(delivery_id) for block in message.blocks)


class SlackSender:
    """Has no state. Every method raises a `SendError` that states what is known of the outcome."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client

    async def send(self, outbound: Outbound) -> Receipt:
        text = f"{_REPEAT_NOTICE}{outbound.text}" if outbound.may_be_duplicate else outbound.text
        if outbound.file is not None:
            return await self._send_file(outbound, outbound.file, text)
        sent = await self._post_blocks(
            "chat.postMessage",
            text,
            _buttons(outbound.buttons),
            channel=outbound.address.chat_id,
            thread_ts=outbound.address.thread_id,
            metadata=delivery_metadata(outbound.delivery_id),
            unfurl_links=False,
            unfurl_media=False,
        )
        return Receipt(platform_message_id=sent.ts)

    async def edit(self, edit: MessageEdit) -> None:
        await self._post_blocks(
            "chat.update",
            edit.text,
            (),
            channel=edit.address.chat_id,
            ts=edit.platform_message_id,
        )

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """https://docs.slack.dev/reference/methods/reactions.add: Slack identifies an emoji by
        name. Removal must name it too, and always removes the waiting reaction, the only one that
        the gateway sets."""
        name = _REACTION_NAMES.get(emoji or WAITING_REACTION)
        if name is None:
            raise SendRejected("{emoji!r} has no name in Slack", emoji=emoji)
        method = "reactions.remove" if emoji is None else "reactions.add"
        with suppress(ReactionUnchanged):
            await self._client.call_form(
                method, SlackEmptyResponse, channel=address.chat_id, timestamp=message_id, name=name
            )

    async def _post_blocks(
        self, method: str, text: str, extra_blocks: Sequence[Json], **target: Any
    ) -> SlackPostResponse:
        """If Slack rejects the blocks, nothing was posted: the plain text is sent instead, with its
        buttons, and is no duplicate."""
        rendered = render(text)
        blocks = [*rendered.blocks, *extra_blocks]
        try:
            return await self._client.call_json(
                method, SlackPostResponse, text=rendered.text or text, blocks=blocks, **target
            )
        except BlocksRefused:
            return await self._client.call_json(
                method,
                SlackPostResponse,
                text=rendered.text or text,
                blocks=list(extra_blocks),
                **target,
            )

    async def _send_file(self, outbound: Outbound, file: OutboundFile, text: str) -> Receipt:
        """https://docs.slack.dev/messaging/working-with-files#uploading_files: request an address,
        upload the bytes there, and share the file. Only the last step makes it visible."""
        upload = await self._request_upload_url(file)
        await self._client.upload_bytes(upload.upload_url, file.data)
        await self._client.call_form(
            "files.completeUploadExternal",
            SlackEmptyResponse,
            files=[{"id": upload.file_id, "title": file.name}],
            channel_id=outbound.address.chat_id,
            thread_ts=outbound.address.thread_id,
            blocks=_caption(outbound.delivery_id, text.strip() or file.name),
        )
        return Receipt(platform_message_id=upload.file_id)

    async def _request_upload_url(self, file: OutboundFile) -> SlackUploadUrl:
        try:
            return await self._client.call_form(
                "files.getUploadURLExternal",
                SlackUploadUrl,
                filename=file.name,
                length=len(file.data),
            )
        except OutcomeUnknown as error:  # nothing is visible yet, so it may be repeated
            raise NotConnected("{error}", error=error) from error


def _caption(delivery_id: DeliveryId, text: str) -> list[Json]:
    """The text above a file. Never empty: the file is found again by the id of its first block."""
    blocks = [dict(block) for block in render(text).blocks]
    if not blocks:
        plain = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
        blocks = [{"type": "rich_text", "elements": [plain]}]
    blocks[0]["block_id"] = delivery_block_id(delivery_id)
    return blocks


def _buttons(buttons: Sequence[Button]) -> list[Json]:
    if not buttons:
        return []
    elements = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "text": {"type": "plain_text", "text": button.label[:_MAX_LABEL_LENGTH]},
            "value": button.value,
        }
        for number, button in enumerate(buttons)
    ]
    return [{"type": "actions", "elements": elements}]


async def find_delivery(
    client: SlackClient,
    delivery_id: DeliveryId,
    address: Address,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Receipt | None:
    """Searches the last two thousand messages of the chat. A delivery that is older counts as lost
    and is sent again."""
    await sleep(_SETTLE_SECONDS)
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await _fetch_history_page(client, address, cursor)
        for message in page.messages:
            if carries_delivery(message, delivery_id):
                return Receipt(platform_message_id=message.ts)
        cursor = page.response_metadata.next_cursor if page.response_metadata else None
        if not cursor:
            return None
    return None


async def _fetch_history_page(
    client: SlackClient, address: Address, cursor: str | None
) -> SlackHistoryPage:
    """Messages of a thread are not in the history of its chat."""
    thread = address.thread_id
    return await client.call_form(
        "conversations.replies" if thread else "conversations.history",
        SlackHistoryPage,
        channel=address.chat_id,
        ts=thread,
        cursor=cursor,
        limit=_PAGE_SIZE,
        include_all_metadata=True,
    )
