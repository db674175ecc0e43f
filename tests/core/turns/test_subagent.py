"""The internal platform: how it is named in rows, and how people see it."""

import pytest

from holdfast.core.messages.outbox import Address
from holdfast.core.turns.subagent import (
    INTERNAL_PLATFORM,
    INTERNAL_PLATFORM_LABEL,
    platform_from_label,
    platform_label,
)
from holdfast.gateway.notify.chat_addresses import format_chat


def test_the_stored_name_of_the_internal_platform_stays() -> None:
    """Rows of earlier versions have it: their subagents and jobs must still be found."""
    assert INTERNAL_PLATFORM == "house"


@pytest.mark.parametrize(
    ("stored", "label"), [(INTERNAL_PLATFORM, INTERNAL_PLATFORM_LABEL), ("telegram", "telegram")]
)
def test_people_see_and_name_the_internal_platform_by_its_label(stored: str, label: str) -> None:
    assert platform_label(stored) == label
    assert platform_from_label(label) == stored


def test_an_internal_chat_is_written_with_the_label() -> None:
    address = Address(platform=INTERNAL_PLATFORM, account="background", chat_id="s_1")
    assert format_chat(address) == "internal:s_1"
