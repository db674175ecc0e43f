"""A gateway with a mailbox: from what people write to what they get, on real servers."""

import asyncio
import json
from collections.abc import AsyncIterator
from email.message import EmailMessage, Message
from pathlib import Path

import pytest
from tests.gateway.approvals.test_approvals import RM
from tests.platforms.email.builders import door_for, known_to, mail, settings_for, until, words_of
from tests.platforms.email.mail_server import PostOffice
from tests.platforms.email.smtp_proxy import Fault, Relay
from tests.support.platform_gateway import PlatformHarness, started

from holdfast.core.ids import CallId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall
from holdfast.tools.send import SendFileTool


class Desk(PlatformHarness):
    """Whose people write mail. Ann is allowed, and nobody else."""

    def __init__(self, home: Path, office: PostOffice, relay: Relay) -> None:
        self.office = office
        self.relay = relay
        self.bot, self.ann = office.person("bot"), office.person("ann")
        self.mailbox = settings_for(office, self.bot, smtp_port=relay.port, allow=(self.ann,))
        door = door_for(self.mailbox, home / "email")
        super().__init__(home, door, self.mailbox, texts=self.words, tools=[SendFileTool()])

    def mails(self) -> list[Message]:
        order = self.relay.taken
        found = self.office.mails(self.ann)
        return sorted(found, key=lambda each: order.index(each["Message-ID"]))

    def words(self) -> list[str]:
        return [words_of(each) for each in self.mails()]

    async def gets(self, message: EmailMessage | str, **headers: str) -> EmailMessage:
        if isinstance(message, str):
            message = mail(message, by=self.ann, to=self.bot, **headers)
        await asyncio.to_thread(self.office.deliver, message, to=self.bot)
        return message

    async def gets_answer(self, text: str, to: Message) -> EmailMessage:
        """As programs write an answer to what they show."""
        quoted = "".join(f"> {line}\n" for line in words_of(to).splitlines())
        name = str(to["Message-ID"])
        before = f"{to['References'] or ''} {name}".strip()
        whole = f"{text}\n\nOn Mon, 16 Nov 2026 at 10:02, Bot <{self.bot}> wrote:\n{quoted}"
        subject = str(to["Subject"])
        headers = {"In-Reply-To": name, "References": before}
        return await self.gets(mail(whole, by=self.ann, to=self.bot, subject=subject, **headers))


@pytest.fixture
async def desk(tmp_path: Path, office: PostOffice) -> AsyncIterator[Desk]:
    async with Relay(office.ports["smtp"]).serving() as relay:
        stage = Desk(tmp_path, office, relay)
        await known_to(stage.mailbox, tmp_path / "email")
        async with started(stage):
            yield stage


async def test_a_mail_is_answered_in_its_thread_and_the_conversation_goes_on_there(
    desk: Desk,
) -> None:
    """Threads: by References; what is quoted is ours already, and not read twice."""
    desk.model.say("Hello **Ann**", "Tuesday.")
    asked = await desk.gets("hello\n-- \nAnn", subject="Order 7")
    await desk.read("Hello Ann")
    (answer,) = desk.mails()
    assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Order 7", asked["Message-ID"])
    assert answer["Auto-Submitted"] == "auto-replied"
    await desk.gets_answer("when?", answer)
    await desk.read("Hello Ann", "Tuesday.")
    said = [each.text for each in desk.model.requests[-1].messages]
    assert said[-3:] == ["Subject: Order 7\n\nhello", "Hello **Ann**", "when?"]


async def test_another_mail_is_another_conversation(desk: Desk) -> None:
    desk.model.say("one", "two")
    await desk.gets("first", subject="One")
    await desk.read("one")
    await desk.gets("second", subject="Two")
    await desk.read("one", "two")
    said = [each.text for each in desk.model.requests[-1].messages]
    assert said[-1] == "Subject: Two\n\nsecond"
    assert "Subject: One\n\nfirst" not in said


async def test_what_was_written_while_the_gateway_was_down_is_answered_once(desk: Desk) -> None:
    """G1, G2, H3: killed, and nothing is lost or repeated; the answer knows its thread."""
    desk.model.say("once", "here I am")
    await desk.gets("hi", subject="First")
    await desk.read("once")
    await desk.settled(DeliveryState.SENT, 1)
    await desk.die()
    await desk.gets("anybody?", subject="Second")
    await desk.start()
    await desk.read("once", "here I am")
    assert desk.mails()[-1]["Subject"] == "Re: Second"
    assert (await desk.ledger()) == {"answered": 2}


async def test_a_mail_whose_receipt_was_lost_comes_again_under_its_name_and_says_so(
    desk: Desk,
) -> None:
    """I2: unknown → resent once, marked; by its name programs know it for the same mail."""
    desk.relay.faults.append(Fault.CUT_AFTER)
    desk.model.say("hello")
    await desk.gets("hi")
    await until(lambda: len(desk.mails()) == 2)
    assert sorted(desk.words()) == ["(This may have reached you before.)\n\nhello", "hello"]
    assert len({each["Message-ID"] for each in desk.mails()}) == 1


async def test_programs_and_strangers_get_no_answer(desk: Desk) -> None:
    """Loops and default deny: nothing is sent to whoever is not allowed, not even a code."""
    desk.model.say("hello")
    eve = desk.office.person("eve")
    await desk.gets(mail("let me in", by=eve, to=desk.bot))
    await desk.gets("I am away", Auto_Submitted="auto-replied")
    await desk.gets("hi")
    await desk.read("hello")
    assert desk.office.mails(eve) == []
    assert len(desk.model.requests) == 1


async def test_a_command_waits_for_a_word_by_mail(desk: Desk) -> None:
    """J3: where there are no buttons, a word is as good; what it is written above is cut off."""
    desk.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done")
    await desk.gets("clean up", subject="Disk")
    await until(lambda: desk.words())
    (question,) = desk.mails()
    assert "rm -rf build" in words_of(question)
    await desk.gets_answer("yes", question)
    await until(lambda: desk.words()[-1] == "done")
    assert len(desk.shell.started) == 1


async def test_files_come_with_mails_and_go_with_them(desk: Desk) -> None:
    """Attachments: kept in the workspace, and sent from there under their name."""
    arguments = json.dumps({"path": "uploads/plän.txt", "caption": "as asked"})
    desk.model.say(
        [ToolCall(id=CallId("c1"), name="send_file", arguments=arguments)], "there it is"
    )
    message = mail("send it back", by=desk.ann, to=desk.bot)
    message.add_attachment("the plan", filename="plän.txt")
    await desk.gets(message)
    await desk.read("as asked", "there it is")
    (file,) = [part for part in desk.mails()[0].walk() if part.get_filename()]
    assert file.get_filename() == "plän.txt"
    data = file.get_payload(decode=True)
    assert isinstance(data, bytes)
    assert data.strip() == b"the plan"
