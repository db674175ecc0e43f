"""Tests the fake Slack with the vendor's own library, slack-sdk."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient
from tests.platforms.slack.builders import until
from tests.platforms.slack.fake import ANN, BOT_USER, CHANNEL, SIGNING_SECRET, FakeSlack, dm
from tests.platforms.slack.fake_events_api import content, signed
from tests.platforms.slack.fake_web_api import FakeWebApi
from tests.platforms.slack.faults import flood


@pytest.fixture
def client(vendor: FakeSlack, base_url: str) -> AsyncWebClient:
    """The vendor's own client: it understands what Slack does, not what we do."""
    made = AsyncWebClient(token=vendor.token, base_url=base_url, retry_handlers=[])
    made.proxy = None  # it would go there for what is on loopback too
    return made


@pytest.fixture
async def socket(vendor: FakeSlack, client: AsyncWebClient) -> AsyncIterator[SocketModeClient]:
    made = SocketModeClient(app_token=vendor.app_token, web_client=client, ping_interval=0.1)
    made.proxy = None
    yield made
    await made.close()
    await made.aiohttp_client_session.close()
    await asyncio.sleep(0)  # its tasks end by themselves


async def test_a_message_is_posted_edited_and_found_in_the_history(
    vendor: FakeSlack, client: AsyncWebClient
) -> None:
    metadata = {"event_type": "mine", "event_payload": {"id": "d1"}}
    posted = await client.chat_postMessage(channel=dm(ANN), text="helo", metadata=metadata)
    await client.chat_update(channel=dm(ANN), ts=str(posted["ts"]), text="hello")
    history = await client.conversations_history(channel=dm(ANN), include_all_metadata=True)
    (message,) = history["messages"]
    assert (message["text"], message["metadata"]) == ("hello", metadata)
    bare = await client.conversations_history(channel=dm(ANN))
    assert "metadata" not in bare["messages"][0]


async def test_refusals_and_rate_limits_have_the_form_that_the_client_expects(
    vendor: FakeSlack, client: AsyncWebClient
) -> None:
    with pytest.raises(SlackApiError) as refused:
        await client.chat_postMessage(channel="C0NONE", text="hello")
    assert refused.value.response["error"] == "channel_not_found"
    vendor.faults.add("chat.postMessage", flood(3))
    with pytest.raises(SlackApiError) as flooded:
        await client.chat_postMessage(channel=dm(ANN), text="hello")
    assert flooded.value.response.status_code == 429
    assert flooded.value.response.headers["Retry-After"] == "3"
    client.token = "xoxb-none"
    with pytest.raises(SlackApiError) as unknown:
        await client.auth_test()
    assert unknown.value.response["error"] == "invalid_auth"


async def test_a_reaction_can_be_added_once_and_removed(
    vendor: FakeSlack, client: AsyncWebClient
) -> None:
    reaction = {"channel": dm(ANN), "timestamp": str(vendor.say("hello")["ts"]), "name": "eyes"}
    await client.reactions_add(**reaction)
    assert list(vendor.reactions.values()) == [["eyes"]]
    with pytest.raises(SlackApiError, match="already_reacted"):
        await client.reactions_add(**reaction)
    await client.reactions_remove(**reaction)
    with pytest.raises(SlackApiError, match="no_reaction"):
        await client.reactions_remove(**reaction)
    with pytest.raises(SlackApiError, match="invalid_name"):
        await client.reactions_add(**{**reaction, "name": "👀"})
    with pytest.raises(SlackApiError, match="message_not_found"):
        await client.reactions_add(**{**reaction, "timestamp": "1.2"})
    vendor.scopes = "chat:write"
    with pytest.raises(SlackApiError, match="missing_scope"):
        await client.reactions_add(**reaction)


async def test_a_file_is_uploaded_by_the_three_steps(
    vendor: FakeSlack, client: AsyncWebClient
) -> None:
    await client.files_upload_v2(
        filename="plan.txt", content="the plan", channel=CHANNEL, initial_comment="here"
    )
    (message,) = vendor.sent()
    assert message["text"] == "here"
    assert vendor.contents[message["files"][0]["id"]] == b"the plan"


async def test_an_envelope_comes_over_the_socket_until_it_is_acknowledged(
    vendor: FakeSlack,
    socket: SocketModeClient,
    web_api: FakeWebApi,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    heard: list[SocketModeRequest] = []

    async def hear(client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        heard.append(request)
        if len(heard) > 1:
            answer = SocketModeResponse(envelope_id=request.envelope_id)
            await client.send_socket_mode_response(answer)

    socket.socket_mode_request_listeners.append(hear)
    vendor.say("hello")
    await socket.connect()
    await until(lambda: heard)
    assert vendor.acks == []
    await web_api.sockets.disconnect("refresh_requested")
    await until(lambda: vendor.acks)
    assert [each.payload["event"]["text"] for each in heard] == ["hello", "hello"]
    assert heard[1].retry_attempt == 0
    assert vendor.sockets == 2


def test_posts_are_signed_as_the_vendors_verifier_expects(vendor: FakeSlack) -> None:
    vendor.say(f"<@{BOT_USER}> hi", chat=CHANNEL)
    vendor.command("/holdfast", "stop")
    assert [each["payload"].get("event", {}).get("type") for each in vendor.waiting] == [
        "app_mention",
        "message",
        None,
    ]
    verifier = SignatureVerifier(SIGNING_SECRET)
    for envelope in vendor.waiting:
        body, _ = content(envelope)
        assert verifier.is_valid_request(body, signed(body))
        assert not verifier.is_valid_request(body + b" ", signed(body))
