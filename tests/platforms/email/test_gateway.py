"""Tests a gateway with a mailbox, from incoming mail to reply, on real servers."""

import asyncio
import json
from collections.abc import AsyncIterator
from email.message import EmailMessage, Message
from pathlib import Path

import pytest
from tests.platforms.email.builders import (
    mail,
    new_platform,
    plain_text,
    settings_for,
    until,
    write_checkpoint,
)
from tests.platforms.email.mail_server import MailServer
from tests.platforms.email.smtp_proxy import SmtpFault, SmtpProxy
from tests.support.approvals import RM
from tests.support.platform_gateway import PlatformGatewayHarness, running_harness

from holdfast.core.ids import CallId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall
from holdfast.tools.send import SendFileTool


class EmailGatewayHarness(PlatformGatewayHarness):
    """Its users write mail. Only Ann is allowed."""

    def __init__(self, home: Path, mail_server: MailServer, smtp_proxy: SmtpProxy) -> None:
        self.mail_server = mail_server
        self.smtp_proxy = smtp_proxy
        self.bot, self.ann = mail_server.new_address("bot"), mail_server.new_address("ann")
        self.mailbox = settings_for(
            mail_server, self.bot, smtp_port=smtp_proxy.port, allow=(self.ann,)
        )
        platform = new_platform(self.mailbox, home / "email")
        super().__init__(
            home, platform, self.mailbox, texts=self.reply_texts, tools=[SendFileTool()]
        )

    def mails(self) -> list[Message]:
        order = self.smtp_proxy.accepted
        found = self.mail_server.mails(self.ann)
        return sorted(found, key=lambda each: order.index(each["Message-ID"]))

    def reply_texts(self) -> list[str]:
        return [plain_text(each) for each in self.mails()]

    async def deliver_mail(self, message: EmailMessage | str, **headers: str) -> EmailMessage:
        if isinstance(message, str):
            message = mail(message, by=self.ann, to=self.bot, **headers)
        await asyncio.to_thread(self.mail_server.deliver, message, to=self.bot)
        return message

    async def deliver_reply(self, text: str, to: Message) -> EmailMessage:
        """As programs write an answer to what they show."""
        quoted = "".join(f"> {line}\n" for line in plain_text(to).splitlines())
        name = str(to["Message-ID"])
        before = f"{to['References'] or ''} {name}".strip()
        whole = f"{text}\n\nOn Mon, 16 Nov 2026 at 10:02, Bot <{self.bot}> wrote:\n{quoted}"
        subject = str(to["Subject"])
        headers = {"In-Reply-To": name, "References": before}
        return await self.deliver_mail(
            mail(whole, by=self.ann, to=self.bot, subject=subject, **headers)
        )


@pytest.fixture
async def harness(tmp_path: Path, mail_server: MailServer) -> AsyncIterator[EmailGatewayHarness]:
    async with SmtpProxy(mail_server.ports["smtp"]).serving() as smtp_proxy:
        harness = EmailGatewayHarness(tmp_path, mail_server, smtp_proxy)
        await write_checkpoint(harness.mailbox, tmp_path / "email")
        async with running_harness(harness):
            yield harness


async def test_a_mail_is_answered_in_its_thread_and_the_conversation_goes_on_there(
    harness: EmailGatewayHarness,
) -> None:
    """Threads: by References; what is quoted is ours already, and not read twice."""
    harness.model.say("Hello **Ann**", "Tuesday.")
    asked = await harness.deliver_mail("hello\n-- \nAnn", subject="Order 7")
    await harness.wait_for_texts("Hello Ann")
    (answer,) = harness.mails()
    assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Order 7", asked["Message-ID"])
    assert answer["Auto-Submitted"] == "auto-replied"
    await harness.deliver_reply("when?", answer)
    await harness.wait_for_texts("Hello Ann", "Tuesday.")
    said = [each.text for each in harness.model.requests[-1].messages]
    assert said[-3:] == ["Subject: Order 7\n\nhello", "Hello **Ann**", "when?"]


async def test_another_mail_is_another_conversation(harness: EmailGatewayHarness) -> None:
    harness.model.say("one", "two")
    await harness.deliver_mail("first", subject="One")
    await harness.wait_for_texts("one")
    await harness.deliver_mail("second", subject="Two")
    await harness.wait_for_texts("one", "two")
    said = [each.text for each in harness.model.requests[-1].messages]
    assert said[-1] == "Subject: Two\n\nsecond"
    assert "Subject: One\n\nfirst" not in said


async def test_a_mail_received_while_the_gateway_was_down_is_answered_once(
    harness: EmailGatewayHarness,
) -> None:
    """G1, G2, H3: killed, and nothing is lost or repeated; the answer knows its thread."""
    harness.model.say("once", "here I am")
    await harness.deliver_mail("hi", subject="First")
    await harness.wait_for_texts("once")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await harness.die()
    await harness.deliver_mail("anybody?", subject="Second")
    await harness.start()
    await harness.wait_for_texts("once", "here I am")
    assert harness.mails()[-1]["Subject"] == "Re: Second"
    assert (await harness.ledger()) == {"answered": 2}


async def test_a_mail_without_a_receipt_is_sent_again_with_its_message_id_and_marked(
    harness: EmailGatewayHarness,
) -> None:
    """I2: unknown → resent once, marked; by its name programs know it for the same mail."""
    harness.smtp_proxy.faults.append(SmtpFault.RESET_AFTER)
    harness.model.say("hello")
    await harness.deliver_mail("hi")
    await until(lambda: len(harness.mails()) == 2)
    assert sorted(harness.reply_texts()) == [
        "(This may have reached you before.)\n\nhello",
        "hello",
    ]
    assert len({each["Message-ID"] for each in harness.mails()}) == 1


async def test_programs_and_unknown_senders_get_no_reply(harness: EmailGatewayHarness) -> None:
    """Loops and default deny: nothing is sent to a person who is not allowed, not even a code."""
    harness.model.say("hello")
    eve = harness.mail_server.new_address("eve")
    await harness.deliver_mail(mail("let me in", by=eve, to=harness.bot))
    await harness.deliver_mail("I am away", Auto_Submitted="auto-replied")
    await harness.deliver_mail("hi")
    await harness.wait_for_texts("hello")
    assert harness.mail_server.mails(eve) == []
    assert len(harness.model.requests) == 1


async def test_a_command_is_approved_by_mail(harness: EmailGatewayHarness) -> None:
    """J3: where there are no buttons, a word is as good; what it is written above is cut off."""
    harness.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done")
    await harness.deliver_mail("clean up", subject="Disk")
    await until(lambda: harness.reply_texts())
    (question,) = harness.mails()
    assert "rm -rf build" in plain_text(question)
    await harness.deliver_reply("yes", question)
    await until(lambda: harness.reply_texts()[-1] == "done")
    assert len(harness.shell.started) == 1


async def test_files_come_with_mails_and_go_with_them(harness: EmailGatewayHarness) -> None:
    """Attachments: kept in the workspace, and sent from there under their name."""
    arguments = json.dumps({"path": "uploads/plän.txt", "caption": "as asked"})
    harness.model.say(
        [ToolCall(id=CallId("c1"), name="send_file", arguments=arguments)], "there it is"
    )
    message = mail("send it back", by=harness.ann, to=harness.bot)
    message.add_attachment("the plan", filename="plän.txt")
    await harness.deliver_mail(message)
    await harness.wait_for_texts("as asked", "there it is")
    (file,) = [part for part in harness.mails()[0].walk() if part.get_filename()]
    assert file.get_filename() == "plän.txt"
    data = file.get_payload(decode=True)
    assert isinstance(data, bytes)
    assert data.strip() == b"the plan"
