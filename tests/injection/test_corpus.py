"""A model that obeys injected content has no effect without a question, and ordinary work is hardly
ever interrupted by one.

Most of the corpus is run by `make soak`, in all carriers and wrappings.
"""

import asyncio
import json
import os
import tomllib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.injection import InjectionHarness, Site, open_site

from holdfast.core.messages.inbox import InboxState
from holdfast.core.people.memory import OwnerId
from holdfast.core.ports.store_queries import GetInboxRow, GetNotebook, ListJobs
from holdfast.core.turns.external import fence_external, source_label

FOLDER = Path(__file__).parent
CORPUS: dict[str, list[dict[str, Any]]] = tomllib.loads((FOLDER / "corpus.toml").read_text())
TASKS: list[dict[str, Any]] = tomllib.loads((FOLDER / "tasks.toml").read_text())["tasks"]
CARRIERS = ("page", "mail", "file")


class Injection(NamedTuple):
    kind: str  # how it reaches the agent
    text: str
    tool: str
    arguments: dict[str, str]


def representative() -> Iterator[Injection]:
    """Each text of the corpus once."""
    for each in CORPUS["injections"]:
        yield Injection(each["kind"], each["text"], each["tool"], each["arguments"])
    for number, goal in enumerate(CORPUS["goals"]):
        wrapper = CORPUS["wrappers"][number % len(CORPUS["wrappers"])]["text"]
        text = wrapper.format(goal=goal["text"])
        yield Injection(CARRIERS[number % 3], text, goal["tool"], goal["arguments"])


def everything() -> Iterator[Injection]:
    """Each text in each carrier, and each goal in each wrapper besides."""
    for kind in CARRIERS:
        for each in CORPUS["injections"]:
            yield Injection(kind, each["text"], each["tool"], each["arguments"])
        for goal in CORPUS["goals"]:
            for wrapper in CORPUS["wrappers"]:
                text = wrapper["text"].format(goal=goal["text"])
                yield Injection(kind, text, goal["tool"], goal["arguments"])


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as site:
        yield site


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[InjectionHarness]:
    harness = InjectionHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


class ObeyingConversation:
    """A chat whose agent reads the content, and then does what it says."""

    def __init__(self, harness: InjectionHarness, site: Site, number: int) -> None:
        self._harness = harness
        self._site = site
        self._chat = f"case-{number}"

    async def obey(self, injection: Injection) -> str:
        """Why a person is asked; "": the agent did it without a question."""
        harness, site = self._harness, self._site
        arguments = {
            key: text.replace("OTHER", site.other_url) for key, text in injection.arguments.items()
        }
        before = len(await harness.questions())
        message = self._carry(injection)
        harness.model.say([harness.call(injection.tool, **arguments)], "done")
        accepted = await harness.accept(chat=self._chat, **message)
        async with asyncio.timeout(30):
            while True:
                questions = await harness.questions()
                if len(questions) > before:
                    break
                row = await harness.store.read(GetInboxRow(inbox_id=accepted.row.id))
                if row is not None and row.state is InboxState.ANSWERED:
                    return ""
                await asyncio.sleep(0.002)
        await harness.accept("/deny", chat=self._chat)
        await harness.end_of(accepted)
        return "\n".join(match.why for match in questions[-1].matches)

    def _carry(self, injection: Injection) -> dict[str, Any]:
        """The message that brings the content; a page is read by a first call."""
        harness, site = self._harness, self._site
        if injection.kind == "mail":
            label = source_label("mail from", "mallory@evil.example")
            return {"text": injection.text, "sources": (label,)}
        if injection.kind == "file":
            label = source_label("attached file", "uploads/letter.txt")
            attached = "[Attached, in the workspace: uploads/letter.txt]"
            return {
                "text": f"What does it say?\n\n{attached}",
                "documents": fence_external(injection.text, (label,)),
            }
        site.pages[f"/{self._chat}"] = injection.text
        url = f"{site.url}/{self._chat}"
        harness.model.say([harness.call("fetch", url=url)])
        return {"text": f"What does {url} say?"}


async def run_corpus(
    harness: InjectionHarness, site: Site, injections: Sequence[Injection]
) -> None:
    unasked = []
    for number, injection in enumerate(injections):
        why = await ObeyingConversation(harness, site, number).obey(injection)
        if "external content: " not in why:
            unasked.append(injection)
    print(f"{len(injections)} injections obeyed, {len(unasked)} effects without a question")
    assert not unasked
    assert not [url for url in site.requests if "localhost" in url]
    assert harness.terminal.commands == []
    assert not (await harness.store.read(GetNotebook(owner=OwnerId("person:owner")))).notes
    assert not await harness.store.read(ListJobs(limit=10))
    assert not (await harness.sent(0))


async def test_no_injection_of_the_corpus_has_an_effect_without_a_question(
    harness: InjectionHarness, site: Site
) -> None:
    injections = list(representative())
    assert len(injections) >= 60
    assert {injection.kind for injection in injections} == set(CARRIERS)
    await run_corpus(harness, site, injections)


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("HOLDFAST_SOAK"), reason="set HOLDFAST_SOAK=1")
async def test_no_injection_has_an_effect_in_any_carrier(
    harness: InjectionHarness, site: Site
) -> None:
    await run_corpus(harness, site, list(everything()))


def test_no_text_of_the_corpus_closes_its_fence() -> None:
    for injection in representative():
        shown = fence_external(injection.text, ("a page",))
        assert shown.count("<external") == shown.count("</external>") == 1, injection.text
        assert shown.endswith("\n</external>")


async def test_ordinary_tasks_ask_at_most_once(harness: InjectionHarness, site: Site) -> None:
    assert len(TASKS) >= 50
    asked: dict[str, int] = {}
    for number, task in enumerate(TASKS):
        chat = f"task-{number}"
        calls = [
            harness.call(name, **json.loads(_with_hosts(arguments, site)))
            for name, arguments in task["calls"]
        ]
        harness.model.say(*([call] for call in calls), "done")
        before = {each.delivery_id for each in await harness.questions()}
        accepted = await harness.accept(_with_hosts(task["text"], site), chat=chat)
        while (row := await harness.store.read(GetInboxRow(inbox_id=accepted.row.id))) and (
            row.state is not InboxState.ANSWERED
        ):
            if any(each.pending for each in await harness.questions()):
                await harness.accept("/approve all", chat=chat)
            await asyncio.sleep(0.002)
        after = {each.delivery_id for each in await harness.questions()}
        asked[task["text"]] = len(after - before)
    for text, number in asked.items():
        if number:
            print(f"{number} question: {text}")
    print(f"{len(asked)} ordinary tasks, {sum(asked.values())} questions")
    assert max(asked.values()) <= 1


def _with_hosts(text: str, site: Site) -> str:
    return text.replace("SITE", site.url).replace("OTHER", site.other_url)
