"""Slack says whose tokens those are, and which of them is wrong."""

from pathlib import Path

import pytest
from tests.platforms.slack.vendor import Vendor

from holdfast.core.door import Opening
from holdfast.core.errors import SendError
from holdfast.core.secret import Secret
from holdfast.platforms.slack.door import DOOR, SlackSettings
from holdfast.service.clock import SystemClock


def opening(base_url: str, **secrets: str) -> Opening[SlackSettings]:
    return Opening(
        account="default",
        settings=SlackSettings(token="env:A", app_token="env:B", base_url=base_url),
        secrets={key: Secret(value) for key, value in secrets.items()},
        folder=Path("/nowhere"),
        clock=SystemClock(),
        new_id=lambda prefix: prefix,
    )


async def test_both_tokens_are_tried_and_no_socket_is_opened(vendor: Vendor, base_url: str) -> None:
    assert DOOR.check is not None
    right = opening(base_url, token=vendor.token, app_token=vendor.app_token)
    assert (await DOOR.check(right)).name.startswith("@")
    with pytest.raises(SendError):
        await DOOR.check(opening(base_url, token=vendor.token, app_token="xapp-wrong"))
    with pytest.raises(SendError):
        await DOOR.check(opening(base_url, token="xoxb-wrong", app_token=vendor.app_token))
