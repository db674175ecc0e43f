"""A home that an earlier version left, killed at work: this one opens it, goes on, and attaches.

What is kept on disk and said on the wire to a runner is a promise between versions, and names in
the code are not: whatever is renamed, all of this stays as it is.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.faults import audit_checks
from tests.faults.previous_home import PreviousHome, PreviousRunner, Table
from tests.support.fork_server import run_holdfast
from tests.support.process_harness import SETTLES_WITHIN, ProcessHarness, vendor
from tests.support.store_file import open_read_only

from holdfast.testing.misbehaving_model.process import ModelProcess
from holdfast.testing.simulated.events import BotMessage, Ledger
from holdfast.testing.simulated.people import PeopleClient

WAITED = 'wait for it [tool process {"action": "wait", "id": "p1"}] [then] [text waited]'
SUDO = (
    'again [tool terminal {"command": "sudo -n true; echo again >> effects.log"}] [then] [text ok]'
)
# Rows that nobody changes: a later version may only add to them. A prompt is made anew where the
# configuration, or another version on purpose, puts it in other words; a new name is no reason.
ONLY_ADDED_TO = (
    *("messages", "undone", "compactions", "children", "routes", "prompts", "audit", "audit_words"),
    *("configurations", "notes", "notebooks", "approval_rules", "principals", "jobs", "job_runs"),
    *("homes", "quiet_chats", "busy", "pairing_tries", "auxiliary", "restarts"),
)


# Words of the command line that have a new name; stored values have none.
RENAMED_OPTIONS = {"--children": "--subagents"}
RENAMED_KEYS = {
    "about": "topic",
    "configurations": "versions",
    "forgotten": "texts_deleted",
    "gist": "summary",
    "in_force": "active",
    "marked": "parts",
    "room": "max_chars",
    "whole": "full_length",
}


class Heir(ProcessHarness):
    """A process_harness whose home another version has furnished."""

    def __init__(
        self,
        previous: PreviousHome,
        *,
        model: ModelProcess,
        http: aiohttp.ClientSession,
        vendor: str,
    ) -> None:
        super().__init__(previous.home, model=model, http=http)
        self._vendor = vendor
        self._people = PeopleClient(vendor, http=http)

    def environment(self, crash_at: str = "") -> dict[str, str]:
        """The file stays as it was found: it names no address."""
        return {
            **super().environment(crash_at),
            "HOLDFAST_MODEL_BASE_URL": self.model.base_url,
            "HOLDFAST_PLATFORMS_SIMULATED_BASE_URL": self._vendor,
        }

    async def cli(self, *arguments: str) -> Any:
        """What the command line says while the gateway runs."""
        done = await asyncio.to_thread(run_holdfast, *arguments, env=self.environment())
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    async def api(self, path: str, *, token: str = "", method: str = "GET") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        url = f"{self.address}/api/v1{path}"
        async with self.http.request(method, url, headers=headers) as response:
            return response.status, await response.json()

    async def arrived(self, delivery: str, chat: str, text: str) -> str:
        """The last gateway had sent this; the id that it has at the vendor."""
        sent = {"delivery_id": delivery, "chat_id": chat, "text": text}
        async with self.http.post(f"{self._vendor}/send", json=sent) as response:
            return str((await response.json())["message_id"])

    async def heard(self, chat: str, text: str) -> None:
        """Once a chat has read this."""
        try:
            async with asyncio.timeout(SETTLES_WITHIN):
                while text not in [one.text for one in sent_to(await self.people.ledger(), chat)]:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            sent = [one.text for one in sent_to(await self.people.ledger(), chat)]
            raise AssertionError(f"{chat} read {sent}, and not {text!r}{self.errors()}") from None


def sent_to(ledger: Ledger, chat: str) -> list[BotMessage]:
    return [sent for sent in ledger.sent if sent.outgoing.chat_id == chat]


@asynccontextmanager
async def inherited(
    previous: PreviousHome, model: ModelProcess, *options: str
) -> AsyncIterator[Heir]:
    """`options` are the vendor's. No gateway runs yet."""
    model.reset()
    async with vendor(*options) as base_url, aiohttp.ClientSession() as http:
        heir = Heir(previous, model=model, http=http, vendor=base_url)
        try:
            yield heir
        finally:
            await heir.end_processes()


class Life:
    """Owns what was seen of a gateway of this version in that home, from its start to its stop."""

    def __init__(self, previous: PreviousHome) -> None:
        self.previous = previous
        self.before = previous.tables()
        self.schema = self._schema()
        self.seen: dict[str, Any] = {}
        self.ledger = Ledger(said=(), sent=(), attempts=())
        self.requests: list[dict[str, Any]] = []

    def sent(self, chat: str) -> list[str]:
        return [sent.text for sent in sent_to(self.ledger, chat)]

    def after(self) -> dict[str, Table]:
        return self.previous.tables()

    def same_schema(self) -> bool:
        return self._schema() == self.schema

    def _schema(self) -> list[tuple[Any, ...]]:
        """With the number of its version."""
        sql = "SELECT type, name, sql, user_version FROM sqlite_schema, pragma_user_version"
        return sorted(self.previous.rows(sql))


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, model_process: ModelProcess) -> Iterator[Life]:
    """One life with the runner that outlived the last one, in which everything is gone on with."""
    previous = PreviousHome(tmp_path_factory.mktemp("home"))
    runner = PreviousRunner(previous, "work")
    life = Life(previous)

    async def live() -> None:
        async with inherited(previous, model_process) as heir:
            await heir.start()
            await look_around(heir, life)
            life.seen["runner"] = runner.alive, runner.pid
            await go_on(heir, life)
            await heir.cli("config", "rollback", "1", "--yes", "--json")
            life.ledger = await heir.wait_until_settled()
            life.requests = model_process.requests()["requests"]
            await heir.stop()
            life.seen["runner_ended"] = not runner.alive

    try:
        asyncio.run(live())
        yield life
    finally:
        runner.end()


async def look_around(heir: Heir, life: Life) -> None:
    """What there is before anybody has said a word."""
    for question in (
        *("doctor --skip model", "approvals list", "jobs list", "jobs history 2"),
        "config history -n 1000",
    ):
        life.seen[question] = await heir.cli(*question.split(), "--json")
    work = life.previous.session("work")
    life.seen["runners"] = life.previous.tables()["runners"]
    life.seen["process"] = await heir.api(f"/sessions/{work}/processes/p1")
    life.seen["viewer"] = await heir.api("/sessions", token=life.previous.viewer)
    life.seen["viewer_refused"] = await heir.api(
        f"/sessions/{work}/stop", token=life.previous.viewer, method="POST"
    )


async def go_on(heir: Heir, life: Life) -> None:
    """Everything that waited is let go, and everybody speaks again."""
    work = life.previous.workspace("work")
    (work / "go").write_text("the true result\n")
    await heir.heard("work", "looked")
    (work / "halt").write_text("the last words\n")
    await heir.people.say(WAITED, chat="work")
    await heir.people.say("yes", chat="asked")
    await heir.people.say(SUDO, chat="rule")
    await heir.people.say("hello [text hello ben]", chat="ben", user="ben")
    await heir.people.say("who am I [text somebody]", chat="unheard")
    for chat, text in (
        *(("work", "waited"), ("asked", "it is done"), ("rule", "ok"), ("ben", "hello ben")),
        *(("unheard", "somebody"), ("open", "spoken at last"), ("kin", "the kin answered")),
        ("doubt", "did this arrive"),
    ):
        await heir.heard(chat, text)


def test_the_home_is_opened_without_a_migration_and_is_healthy(life: Life) -> None:
    """K5: no migration, no mending, no complaint."""
    assert life.same_schema()
    assert life.seen["doctor --skip model"]["healthy"] is True
    assert life.previous.rows("PRAGMA integrity_check") == [("ok",)]
    assert life.previous.rows("SELECT 1 FROM turns WHERE state = 'open'") == []
    assert life.previous.rows("SELECT 1 FROM inbox WHERE ended_at IS NULL") == []


@pytest.mark.parametrize("table", ONLY_ADDED_TO)
def test_stored_rows_stay_unchanged(life: Life, table: str) -> None:
    """To go on adds to what there is."""
    before, after = life.before[table], life.after()[table]
    assert before
    assert {key: after.get(key) for key in before} == before


def test_an_interrupted_turn_is_resumed_with_a_note_and_answered_once(life: Life) -> None:
    """H1, H3, G2"""
    assert life.sent("open") == ["spoken at last"]
    [said, note, answer] = life.previous.transcript("open")
    assert (said["type"], note["type"], answer["type"]) == ("user", "note", "assistant")
    assert note["text"].startswith("[System note:")


def test_a_resumed_turn_has_the_prompt_that_its_session_began_with(life: Life) -> None:
    """It was made on another day, by another version."""
    session = life.previous.session("open")
    [prompt] = [row[1] for row in life.before["prompts"].values() if row[0] == session]
    asked = [one for one in life.requests if "speak at last" in json.dumps(one)]
    assert [one["messages"][0]["content"] for one in asked] == [prompt]


def test_the_runner_is_recognised_and_not_replaced(life: Life) -> None:
    """J2: by pid and start time; its row is the one that it had."""
    assert life.seen["runner"] == (True, next(row[1] for row in life.before["runners"].values()))
    assert life.seen["runners"] == life.before["runners"]
    assert life.seen["runner_ended"], "who stops a gateway ends its runners"


def test_the_running_command_is_attached_to_and_has_its_true_result(life: Life) -> None:
    """H2, J2"""
    [_, ran, *_] = life.previous.results("work")
    assert (ran["name"], ran["text"]) == ("terminal", "the true result")
    assert "outcome" not in ran  # which is how one that ended well is kept
    effects = (life.previous.workspace("work") / "effects.log").read_text().split()
    assert effects == ["began", "ended"]


def test_the_queued_message_is_answered_next(life: Life) -> None:
    """G4, H5: in the order in which they came."""
    assert life.sent("work") == ["it ran", "looked", "waited"]


def test_the_background_process_is_adopted_and_can_be_read(life: Life) -> None:
    """J2: over HTTP, by the agent while it runs, and to its end."""
    status, process = life.seen["process"]
    assert (status, process["running"], process["output"]) == (200, True, "ready\n")
    [_, _, looked, waited] = life.previous.results("work")
    assert "p1 running: echo ready;" in looked["text"]
    assert "\nready\n" in looked["text"]
    assert "p1 ended with exit code 0" in waited["text"]
    assert waited["text"].endswith("the last words")


def test_the_pending_approval_still_waits_and_its_answer_resumes_the_turn(life: Life) -> None:
    """J3: it is not asked again, and the command runs once."""
    [waiting] = [one for one in life.seen["approvals list"] if one["state"] == "pending"]
    assert waiting["command"].startswith("mkdir -p free && chmod -R 777 free")
    told = life.sent("asked")
    assert told[-1] == "it is done"
    assert not [text for text in told if text.startswith("May this run?")]
    assert (life.previous.workspace("asked") / "effects.log").read_text() == "asked\n"
    sql = "SELECT state, said_by FROM approvals WHERE id = ?"
    assert life.previous.rows(sql, waiting["id"]) == [("approved", "simulated:default:ann")]


def test_a_standing_approval_rule_still_applies(life: Life) -> None:
    """J3: what it allows is known by the same name."""
    assert life.sent("rule") == ["ok"]
    effects = life.previous.workspace("rule") / "effects.log"
    assert effects.read_text() == "allowed\nagain\n"


def test_an_answer_without_a_receipt_is_sent_once_more_and_marked(life: Life) -> None:
    """I2"""
    arrived = sent_to(life.ledger, "doubt")
    assert [(one.text, one.outgoing.maybe_repeated) for one in arrived] == [
        ("did this arrive", True)
    ]
    [row] = life.previous.rows("SELECT state, resends FROM outbox WHERE id = ?", unsure(life))
    assert row == ("sent", 1)
    marked = [one.outgoing.chat_id for one in life.ledger.sent if one.outgoing.maybe_repeated]
    assert marked == ["doubt"]


def unsure(life: Life) -> str:
    """The delivery of which nobody knew."""
    columns = [
        name for (name,) in life.previous.rows("SELECT name FROM pragma_table_info('outbox')")
    ]
    state, name = columns.index("state"), columns.index("id")
    [found] = [row[name] for row in life.before["outbox"].values() if row[state] == "sending"]
    return str(found)


def test_jobs_keep_their_due_times_and_their_history(life: Life) -> None:
    """J4"""
    for question in ("jobs list", "jobs history 2"):
        assert at_least(life.previous.said[question], life.seen[question])
    due = {job["name"]: job["next_due"] for job in life.seen["jobs list"]}
    assert due["later"] == 2095923600
    assert due["tide"] > due["later"]
    assert due["once"] is None
    assert [run["text"] for run in life.seen["jobs history 2"]] == ["high tide"]
    assert life.sent("jobs") == []


def test_an_ended_subagent_is_there_and_an_interrupted_one_ends(life: Life) -> None:
    """H1: with what they were asked and what they said, each below its parent."""
    sql = "SELECT parent_id, session_id FROM children ORDER BY created_at"
    [(family, ended), (kin, cut)] = life.previous.rows(sql)
    assert (family, kin) == (life.previous.session("family"), life.previous.session("kin"))
    said = "SELECT json_extract(body, '$.text') FROM messages WHERE session_id = ? ORDER BY seq"
    assert life.previous.rows(said, ended)[-1] == ("the moorings hold",)
    assert life.previous.rows(said, cut)[-1] == ("thought",)
    [told] = life.previous.results("kin")
    assert told["text"].endswith("thought")
    assert life.sent("kin") == ["the kin answered"]
    assert life.sent("family") == []


def test_an_earlier_configuration_can_be_restored(life: Life) -> None:
    """All are listed, and its text is put back, under a number of its own."""
    question = "config history -n 1000"
    kept = life.previous.said[question]["configurations"]
    listed = life.seen[question]["versions"][-len(kept) :]
    for each in kept:
        del each["in_force"]  # none was active where no gateway ran
    assert at_least(kept, listed)
    [(first,)] = life.previous.rows("SELECT text FROM configurations WHERE number = 1")
    assert "max_steps = 30" in first
    assert (life.previous.home / "holdfast.toml").read_text() == first
    [*_, before, last] = life.previous.rows(
        "SELECT text, source FROM configurations ORDER BY number"
    )
    assert "max_steps = 32" in before[0]
    assert last == (first, "rollback")


def test_the_audit_log_continues_from_the_existing_rows(life: Life) -> None:
    """One chain, over both versions, and a row for each call that ended in either."""
    verified = json.loads(offline(life.previous, "audit", "verify", "--json"))
    assert verified["broken"] == []
    assert verified["first"] == 1
    assert verified["rows"] == len(life.after()["audit"]) > len(life.before["audit"])
    with open_read_only(life.previous.db) as db:
        assert list(audit_checks.audit_violations(db)) == []


def test_notes_are_known_in_a_new_conversation(life: Life) -> None:
    """By whose it is, and not by the session that it was noted in."""
    [asked] = [one for one in life.requests if "who am I" in json.dumps(one)]
    assert "Sails on Thursdays." in asked["messages"][0]["content"]


def test_paired_users_stay_allowed_and_viewers_stay_read_only(life: Life) -> None:
    assert life.sent("ben") == ["hello ben"]
    assert life.seen["viewer"][0] == 200
    assert life.seen["viewer_refused"][0] == 403


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, model_process: ModelProcess) -> Life:
    """A life whose predecessor left no runner, at a platform that can be asked what arrived."""
    previous = PreviousHome(tmp_path_factory.mktemp("home"))
    life = Life(previous)

    async def live() -> None:
        async with inherited(previous, model_process, "--lookup") as heir:
            life.seen["arrived"] = await heir.arrived(unsure(life), "doubt", "did this arrive")
            await heir.start()
            for chat, text in (("work", "looked"), ("open", "spoken at last")):
                await heir.heard(chat, text)
            await heir.until(lambda: settled(previous, unsure(life)) != "sending")
            life.ledger = await heir.people.ledger()
            await heir.stop()

    asyncio.run(live())
    return life


def settled(previous: PreviousHome, delivery: str) -> str:
    [(state,)] = previous.rows("SELECT state FROM outbox WHERE id = ?", delivery)
    return str(state)


def test_an_answer_that_has_arrived_is_found_by_its_id_and_not_sent_again(alone: Life) -> None:
    """I2: where the platform can be asked."""
    sql = "SELECT state, platform_message_id, resends FROM outbox WHERE id = ?"
    assert alone.previous.rows(sql, unsure(alone)) == [("sent", alone.seen["arrived"], 0)]
    assert alone.sent("doubt") == ["did this arrive"]


def test_a_command_whose_runner_is_gone_is_reported_as_unknown_and_not_run_again(
    alone: Life,
) -> None:
    """H2, J2: its record in the spool says that it was begun, and no more."""
    [_, ran, looked] = alone.previous.results("work")
    assert (ran["name"], ran["outcome"]) == ("terminal", "unknown")
    assert "p1 ended (lost: its sandbox ended under it)" in looked["text"]
    assert "\nready\n" in looked["text"]
    assert (alone.previous.workspace("work") / "effects.log").read_text() == "began\n"
    assert alone.sent("work") == ["it ran", "looked"]


def test_an_unanswered_approval_stays_pending(alone: Life) -> None:
    """J3"""
    assert alone.sent("asked") == []
    sql = "SELECT state FROM approvals ORDER BY asked_at DESC LIMIT 1"
    assert alone.previous.rows(sql) == [("pending",)]


@pytest.fixture(scope="module")
def at_rest(tmp_path_factory: pytest.TempPathFactory) -> PreviousHome:
    """The home as it was found, with no gateway."""
    return PreviousHome(tmp_path_factory.mktemp("home"))


def offline(previous: PreviousHome, *arguments: str) -> str:
    """What the command line says where no gateway runs."""
    nowhere = "http://127.0.0.1:9"
    env = {
        "HOLDFAST_HOME": str(previous.home),
        "HOME": str(previous.home),
        "PATH": os.environ["PATH"],
        "HOLDFAST_MODEL_BASE_URL": nowhere,
        "HOLDFAST_PLATFORMS_SIMULATED_BASE_URL": nowhere,
    }
    done = run_holdfast(*arguments, env=env)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_command_line_prints_what_that_version_printed_and_changes_nothing(
    at_rest: PreviousHome,
) -> None:
    """Word for word, but for what a later version says besides."""
    before = at_rest.tables()
    assert len(at_rest.said) == 14
    for question, said in at_rest.said.items():
        words = [RENAMED_OPTIONS.get(word, word) for word in question.split()]
        text = offline(at_rest, *words, "--json")
        rows = question.startswith("audit -n")  # in lines, each of them JSON
        now = json.loads(f"[{','.join(text.splitlines())}]" if rows else text)
        assert at_least(said, now), f"{question}:\n{said}\n{now}"
    assert at_rest.tables() == before


def at_least(before: Any, now: Any) -> bool:
    """Whether all that was said is said now; things may have got more properties."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(
            (name := key if key in now else RENAMED_KEYS.get(key)) in now
            and at_least(value, now[name])
            for key, value in before.items()
        )
    if isinstance(before, list):
        return isinstance(now, list) and len(before) == len(now) and all(map(at_least, before, now))
    return bool(before == now)
