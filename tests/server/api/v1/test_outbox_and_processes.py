"""Outbox, inbox, and the processes of all sessions over `/api/v1`."""

import pytest
from tests.server.api.v1_helpers import wait_for_first_record
from tests.support.v1_client import V1

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import (
    Address,
    DeliveryBlocker,
    DeliveryKind,
    DeliveryRow,
    DeliveryState,
    DeliveryStatus,
)
from holdfast.core.text.translation import use_catalogue
from holdfast.server.api.views.deliveries import DeliveryOutlook, delivery_detail_view
from holdfast.system.languages import PseudoCatalogue


async def test_a_sent_delivery_is_listed_and_not_sent_again(v1: V1) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, "[text an answer]"))
    await v1.end(await v1.say(session, "[text another]", "m2"))
    listed = (await v1.get("/outbox", state="sent", limit=200))["deliveries"]
    newest, older = [each for each in listed if each["session_id"] == session]
    assert (newest["text"], older["text"]) == ("another", "an answer")
    assert newest["updated_at"] >= newest["created_at"] > older["created_at"]
    translated = await v1.ask(
        "GET", "/outbox?state=sent&limit=200", headers={"Accept-Language": "en-XA"}
    )
    (shown,) = [each for each in translated["deliveries"] if each["id"] == newest["id"]]
    assert shown["resend_refusal"] == f"⟦{newest['resend_refusal']}⟧"
    paged = await v1.get("/outbox", state="sent", before=newest["seq"], limit=1)
    assert paged["more"] == (len(listed) > 2) and paged["deliveries"][0]["seq"] < newest["seq"]
    status, error = await v1.refused("POST", f"/deliveries/{newest['id']}/retry")
    assert (status, error["code"]) == (409, "not_sent")
    assert "there is a receipt" in error["message"]
    assert (await v1.refused("POST", "/deliveries/dlv_none/retry"))[0] == 404
    status, error = await v1.refused("GET", "/outbox", params={"state": "lost"})
    assert (status, error["param"]) == (400, "state")


@pytest.mark.parametrize(
    ("state", "outcome_unknown", "status", "refusal", "resolves"),
    [
        (DeliveryState.PENDING, False, DeliveryBlocker.ACCOUNT, "", False),
        (DeliveryState.FAILED, False, None, "it has expired.", False),
        (DeliveryState.FAILED, False, None, "", False),
        (DeliveryState.UNKNOWN, True, None, "", True),
        (DeliveryState.UNKNOWN, True, None, "", False),
    ],
)
def test_the_remedy_of_a_delivery_is_in_the_language_of_its_reader(
    state: DeliveryState,
    outcome_unknown: bool,
    status: DeliveryBlocker | None,
    refusal: str,
    resolves: bool,
) -> None:
    row = DeliveryRow(
        seq=1,
        id=DeliveryId("dlv_1"),
        address=Address(platform="telegram", account="default", chat_id="1", thread_id=None),
        kind=DeliveryKind.REPLY,
        text="hello",
        session_id=None,
        turn_id=None,
        inbox_id=None,
        state=state,
        attempts=1,
        outcome_unknown=outcome_unknown,
        platform_message_id=None,
        error="",
        expires_at=None,
        created_at=1.0,
    )
    outlook = DeliveryOutlook(
        status=None if status is None else DeliveryStatus(blocked_by=status, until=None),
        resend_refusal=refusal,
        resolves_unknown=resolves,
    )
    english = delivery_detail_view(row, outlook).remedy
    assert english
    with use_catalogue(PseudoCatalogue()):
        assert delivery_detail_view(row, outlook).remedy == f"⟦{english}⟧"


async def test_the_inbox_lists_open_and_ended_messages_by_state(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, "[first 60] never")
    await wait_for_first_record(v1, session)
    (line,) = [each for each in (await v1.get("/inbox"))["messages"] if each["id"] == message]
    assert (line["state"], line["session_id"]) == ("running", session)
    assert (line["text"], line["platform"]) == ("[first 60] never", "web")
    await v1.ask("POST", f"/sessions/{session}/stop")
    ended = (await v1.get("/inbox", state="superseded", limit=1))["messages"]
    assert [each["id"] for each in ended] == [message]
    assert message not in [each["id"] for each in (await v1.get("/inbox"))["messages"]]


async def test_the_processes_of_all_sessions_are_listed_with_their_session(v1: V1) -> None:
    session = await v1.open()
    start = '[tool process {"action": "start", "command": "sleep 600"}]'
    await v1.end(await v1.say(session, start))
    (line,) = [each for each in await v1.get("/processes") if each["session_id"] == session]
    assert (line["command"], line["running"]) == ("sleep 600", True)
    assert "session_id" not in (await v1.get(f"/sessions/{session}/processes"))[0]
    await v1.ask("DELETE", f"/sessions/{session}/processes/{line['id']}")
    (line,) = [each for each in await v1.get("/processes") if each["session_id"] == session]
    assert not line["running"]
