"""Marks: how a message carries the delivery that it was sent for, unseen by its readers."""

from typing import Any

from holdfast.core.ids import DeliveryId
from holdfast.platforms.slack.wire import SlackHistoryMessage

_METADATA_TYPE = "holdfast_delivery"


def delivery_metadata(delivery_id: DeliveryId) -> dict[str, Any]:
    """https://docs.slack.dev/messaging/message-metadata"""
    return {"event_type": _METADATA_TYPE, "event_payload": {"id": delivery_id}}


def delivery_block_id(delivery_id: DeliveryId) -> str:
    """A file is shared without metadata, and its blocks keep their names:
    https://docs.slack.dev/reference/block-kit/blocks/rich-text-block."""
    return f"{_METADATA_TYPE}:{delivery_id}"


def carries_delivery(message: SlackHistoryMessage, delivery_id: DeliveryId) -> bool:
    metadata = message.metadata
    if metadata is not None and metadata.event_type == _METADATA_TYPE:
        return metadata.event_payload.get("id") == delivery_id
    return any(block.block_id == delivery_block_id(delivery_id) for block in message.blocks)
