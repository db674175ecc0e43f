"""Tests a gateway with hooks, from a post to the reply at the receiver."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.telegram.builders import until
from tests.platforms.webhook.builders import HookClient, new_platform, settings_of
from tests.platforms.webhook.fake_receiver import FakeReceiver, listening
from tests.support.approvals import RM
from tests.support.platform_gateway import PlatformGatewayHarness, running_harness

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ids import CallId, SessionId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall
from holdfast.core.ops.account import AccountState
from holdfast.core.people.approval import ApprovalState
from holdfast.core.ports.store_queries import ListApprovals
from holdfast.runner.workspace import Workspace
from holdfast.testing.scripted_model import ManualReply

EVENT = {"action": "opened", "issue": {"number": 7, "title": "It breaks"}}


class WebhookGatewayHarness(PlatformGatewayHarness):
    """A stage that programs post to, with one person in the simulated chat."""

    def __init__(self, home: Path, receiver: FakeReceiver, url: str, hook: dict[str, Any]) -> None:
        platform = new_platform(url, hook=hook)
        super().__init__(home, platform, settings_of(url, hook=hook), texts=receiver.texts)
        people = {"simulated": PlatformSettings(allow=("ann",))}
        platforms = {**self.settings.platforms, **people}
        self.settings = msgspec.structs.replace(self.settings, platforms=platforms)
        self.receiver = receiver
        self.routes = platform.routes()
        self.client: HookClient


Open = Callable[..., Awaitable[WebhookGatewayHarness]]


@pytest.fixture
async def opened(tmp_path: Path, receiver: FakeReceiver, url: str) -> AsyncIterator[Open]:
    """Starts a gateway with a hook of these settings."""
    async with AsyncExitStack() as stack:

        async def start(*, to: str = url, **hook: Any) -> WebhookGatewayHarness:
            harness = WebhookGatewayHarness(tmp_path, receiver, to, hook)
            address = await stack.enter_async_context(listening(harness.routes))
            http = await stack.enter_async_context(aiohttp.ClientSession(address))
            harness.client = HookClient(http, address)
            await stack.enter_async_context(running_harness(harness))
            await until(lambda: receiver.pings or not to)
            return harness

        yield start


async def test_an_event_is_answered_at_the_receiver_in_a_conversation_of_its_own(
    opened: Open,
) -> None:
    harness = await opened(template="Issue {issue.number}: {issue.title}", thread="{issue.number}")
    harness.model.say("I look into it", "and into that")
    await harness.client.post(EVENT)
    await harness.wait_for_texts("I look into it")
    await harness.client.post({"issue": {"number": 8, "title": "So does this"}})
    await harness.wait_for_texts("I look into it", "and into that")
    assert [each["thread"] for each in harness.receiver.messages] == ["7", "8"]
    one, other = harness.model.requests
    assert one.messages[-1].text == "Issue 7: It breaks"
    assert len(other.messages) == 1
    await harness.wait_for_deliveries(DeliveryState.SENT, 2)


async def test_an_event_that_is_posted_again_after_a_restart_is_answered_once(
    opened: Open,
) -> None:
    """G2: the cache of replays is the inbox, and outlives the process."""
    harness = await opened()
    harness.model.say("once")
    assert (await harness.client.post(EVENT))[0] == 202
    await harness.wait_for_texts("once")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await harness.die()
    await harness.start()
    await until(lambda: len(harness.receiver.pings) == 2)
    status, response = await harness.client.post(EVENT)
    assert (status, response["status"]) == (200, "duplicate")
    assert await harness.ledger() == {"answered": 1}


async def test_a_reply_without_a_receipt_arrives_exactly_once(opened: Open) -> None:
    """I2: an idempotency key → exactly once, over breaks and faults of the receiver."""
    harness = await opened()
    harness.receiver.faults = [ConnectionFault.RESET_AFTER, (503, {}), ConnectionFault.RESET_BEFORE]
    harness.model.say("hello")
    await harness.client.post(EVENT)
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert harness.receiver.texts() == ["hello"]
    assert len(harness.receiver.headers) == 4


async def test_a_reply_interrupted_by_a_crash_arrives_exactly_once(opened: Open) -> None:
    harness = await opened()
    harness.receiver.faults = [ConnectionFault.RESET_AFTER, *[(503, {})] * 50]
    harness.model.say("hello")
    await harness.client.post(EVENT)
    await until(lambda: len(harness.receiver.headers) >= 2)
    await harness.die()
    harness.receiver.faults = []
    await harness.start()
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert harness.receiver.texts() == ["hello"]


async def test_a_hook_has_its_configured_toolsets_and_others_have_all(
    opened: Open,
) -> None:
    """Permissions: what the model is shown is all that it can call; A1: a person who goes on in
    the same conversation has the agent of a person."""
    harness = await opened(
        toolsets=("web",), platform="simulated", chat="ann", user="ann", template="{action}"
    )
    harness.model.say("noted", "at once")
    await harness.client.post(EVENT)
    sent = await harness.sent(1)
    harness.say("go on", chat="ann")
    await harness.sent(2)
    hook, person = harness.model.requests
    assert [tool.name for tool in hook.tools] == []
    assert "shell" in [tool.name for tool in person.tools]
    assert hook.messages[-1].text == "[Posted to the webhook build]\nopened"
    assert [each.text for each in person.messages][:2] == [hook.messages[-1].text, "noted"]
    assert sent[0].outgoing.chat_id == "ann"


async def test_a_hook_cannot_approve_its_own_command(opened: Open) -> None:
    """Law 12: one that may not command is text, a plain yes too."""
    harness = await opened(template="{say}")
    harness.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done")
    await harness.client.post({"say": "clean up"})
    await until(lambda: harness.receiver.messages)
    assert "May this run?" in harness.receiver.texts()[0]
    for word in ("yes", "/approve"):
        await harness.client.post({"say": word})
    (approval,) = await harness.store.read(ListApprovals(limit=5))
    assert approval.state is ApprovalState.PENDING
    assert harness.shell.started == []


async def test_a_hook_that_posts_as_a_user_who_is_not_allowed_is_refused(opened: Open) -> None:
    """Law 12: who it speaks as must be let in where it speaks."""
    harness = await opened(platform="simulated", chat="eve", user="eve")
    assert (await harness.client.post(EVENT))[0] == 403
    assert await harness.ledger() == {"refused": 1}  # a pairing code went to the chat


async def test_two_gateways_do_not_answer_each_other(opened: Open) -> None:
    """Groups: no loops with programs that answer."""
    harness = await opened()
    status, response = await harness.client.post(EVENT, User_Agent="Holdfast")
    assert (status, response["status"]) == (200, "ignored")
    assert await harness.ledger() == {}


async def test_a_failing_receiver_gets_pending_replies_when_it_recovers(
    opened: Open,
) -> None:
    """What is posted meanwhile is taken, and its answer waits."""
    harness = await opened()
    harness.receiver.faults = [(500, {})] * 4
    harness.model.say("hello")
    status, _ = await harness.client.post(EVENT)
    assert status == 202
    await harness.wait_for_texts("hello")


async def test_without_a_receiver_replies_are_stored_for_the_page_and_the_api(opened: Open) -> None:
    """Committed means sent: the page and the API have them."""
    harness = await opened(to="")
    harness.model.say("kept")
    await harness.client.post(EVENT)
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert await harness.ledger() == {"answered": 1}
    assert harness.receiver.messages == []


async def test_files_of_a_post_are_in_the_workspace(opened: Open) -> None:
    """Attachments, in the form in which our own posts have them."""
    harness = await opened(template="{text}", files="file")
    harness.model.say("thanks")
    file = {"name": "../plan.txt", "data": "dGhlIHBsYW4="}
    await harness.client.post({"text": "look", "file": file})
    await harness.wait_for_texts("thanks")
    (request,) = harness.model.requests
    assert request.messages[-1].text == "look\n\n[Attached, in the workspace: uploads/plan.txt]"
    session = await harness.only_session()
    (found,) = Workspace(harness.home, SessionId(session)).list_or_open("")
    assert found.path == "uploads/plan.txt"


async def test_a_paused_account_rejects_posts_with_503(opened: Open) -> None:
    """Also where no receiver is: a flood of posts can be shut out without a restart."""
    harness = await opened(to="")
    harness.model.say("back")
    facts = await harness.gateway.accounts.pause("webhook", "default")
    assert facts.state is AccountState.PAUSED
    assert (await harness.client.post(EVENT))[0] == 503
    await harness.gateway.accounts.resume("webhook", "default")
    assert (await harness.client.post(EVENT))[0] == 202
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)


async def test_an_interrupted_turn_resumes_with_the_toolsets_of_its_hook(opened: Open) -> None:
    """H3: what it is confined to is kept with its message."""
    harness = await opened(toolsets=("web",))
    harness.model.say(ManualReply(), "finished")
    await harness.client.post(EVENT)
    await until(lambda: harness.model.requests)
    await harness.die()
    await harness.start()
    await until(lambda: harness.receiver.texts()[-1:] == ["finished"])
    assert [request.tools for request in harness.model.requests] == [(), ()]
