"""Sending: our messages, changes, files and signs as calls of the Web API."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Change, Choice, Outbound, Receipt, SentFile
from holdfast.core.ports.signs import SEEN
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.marks import block_id_of, metadata_of
from holdfast.platforms.slack.refusals import Already, BadFormat
from holdfast.platforms.slack.wire import Done, Sent, Upload
from holdfast.platforms.text.slack import render

_REPEATED = "*(This may have reached you before.)*\n\n"
LONGEST_MARK = len(_REPEATED)
_LONGEST_LABEL = 75  # characters on a button
_NAMES = {SEEN: "eyes"}

Json = dict[str, Any]


class Sending:
    """Keeps nothing. Everything raises a `SendError` that says what is known of the call's fate."""

    def __init__(self, api: WebApi) -> None:
        self._api = api

    async def send(self, outbound: Outbound) -> Receipt:
        text = f"{_REPEATED}{outbound.text}" if outbound.maybe_repeated else outbound.text
        if outbound.file is not None:
            return await self._share(outbound, outbound.file, text)
        sent = await self._shown(
            "chat.postMessage",
            text,
            _buttons(outbound.choices),
            channel=outbound.address.chat_id,
            thread_ts=outbound.address.thread_id,
            metadata=metadata_of(outbound.delivery_id),
            unfurl_links=False,
            unfurl_media=False,
        )
        return Receipt(platform_message_id=sent.ts)

    async def edit(self, change: Change) -> None:
        await self._shown(
            "chat.update",
            change.text,
            (),
            channel=change.address.chat_id,
            ts=change.platform_message_id,
        )

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        """https://docs.slack.dev/reference/methods/reactions.add: a sign goes by its name there.
        Ours to be taken back is the one that the gateway puts: Slack wants to be told which."""
        name = _NAMES.get(sign or SEEN)
        if name is None:
            raise Refused(f"Slack's name of {sign!r} is not known here")
        method = "reactions.remove" if sign is None else "reactions.add"
        with suppress(Already):
            await self._api.ask(
                method, Done, channel=address.chat_id, timestamp=message_id, name=name
            )

    async def _shown(self, method: str, text: str, below: Sequence[Json], **place: Any) -> Sent:
        """Blocks that are not understood were refused as a whole: what is sent instead is no
        repetition, and has its buttons still."""
        words = render(text)
        blocks = [*words.blocks, *below]
        try:
            return await self._api.say(
                method, Sent, text=words.text or text, blocks=blocks, **place
            )
        except BadFormat:
            return await self._api.say(
                method, Sent, text=words.text or text, blocks=list(below), **place
            )

    async def _share(self, outbound: Outbound, file: SentFile, text: str) -> Receipt:
        """https://docs.slack.dev/messaging/working-with-files#uploading_files: an address is
        asked for, the bytes are brought there, and only the last step shows them to anybody."""
        upload = await self._address_for(file)
        await self._api.upload(upload.upload_url, file.data)
        await self._api.ask(
            "files.completeUploadExternal",
            Done,
            files=[{"id": upload.file_id, "title": file.name}],
            channel_id=outbound.address.chat_id,
            thread_ts=outbound.address.thread_id,
            blocks=_caption(outbound.delivery_id, text.strip() or file.name),
        )
        return Receipt(platform_message_id=upload.file_id)

    async def _address_for(self, file: SentFile) -> Upload:
        try:
            return await self._api.ask(
                "files.getUploadURLExternal", Upload, filename=file.name, length=len(file.data)
            )
        except OutcomeUnknown as error:  # nobody sees anything by this
            raise NotConnected(str(error)) from error


def _caption(delivery_id: DeliveryId, text: str) -> list[Json]:
    """What stands above a file. There are always words: the name of the block they are in is how
    the file is found again."""
    blocks = [dict(block) for block in render(text).blocks]
    if not blocks:
        plain = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
        blocks = [{"type": "rich_text", "elements": [plain]}]
    blocks[0]["block_id"] = block_id_of(delivery_id)
    return blocks


def _buttons(choices: Sequence[Choice]) -> list[Json]:
    if not choices:
        return []
    elements = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "text": {"type": "plain_text", "text": choice.label[:_LONGEST_LABEL]},
            "value": choice.says,
        }
        for number, choice in enumerate(choices)
    ]
    return [{"type": "actions", "elements": elements}]
