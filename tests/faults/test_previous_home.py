"""A home that an earlier version left when it was killed: this version opens it and resumes it.

The store, the files and the wire protocol of runners are promises between versions; names in the
code are not.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.faults import audit_checks
from tests.faults.previous_home import PreviousHome, PreviousRunner, Table
from tests.support.fork_server import run_holdfast
from tests.support.process_harness import SETTLES_WITHIN, ProcessHarness, vendor
from tests.support.store_file import open_read_only
from tests.support.stores import IMPLEMENTATIONS

from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.misbehaving_model.process import ModelProcess
from holdfast.testing.simulated.events import BotMessage, Ledger
from holdfast.testing.simulated.people import PeopleClient

WAIT_MESSAGE = 'wait for it [tool process {"action": "wait", "id": "p1"}] [then] [text waited]'
SUDO_MESSAGE = (
    'again [tool terminal {"command": "sudo -n true; echo again >> effects.log"}] [then] [text ok]'
)
# Tables to which a later version may only add rows. A prompt is rebuilt when the configuration or
# its wording changes, and not because of a renaming in the code.
APPEND_ONLY_TABLES = (
    *("messages", "undone", "compactions", "children", "routes", "prompts", "audit", "audit_words"),
    *("configurations", "notes", "notebooks", "principals", "jobs", "job_runs"),
    *("homes", "quiet_chats", "busy", "pairing_tries", "auxiliary", "restarts"),
)


# Options, keys and shown platform names that are new on the command line; stored values are not.
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
SHOWN_PLATFORMS = {"house": "internal"}


class UpgradedGateway(ProcessHarness):
    """A harness on the home of the earlier version."""

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
        """The addresses come by variables, since the configuration file stays unchanged."""
        return {
            **super().environment(crash_at),
            "HOLDFAST_MODEL_BASE_URL": self.model.base_url,
            "HOLDFAST_PLATFORMS_SIMULATED_BASE_URL": self._vendor,
            "HOLDFAST_RUNNER_SANDBOX_OFF_AS_ROOT": "true",  # its commands run without one
        }

    async def cli(self, *arguments: str) -> Any:
        """The output of the command line while the gateway runs."""
        done = await asyncio.to_thread(run_holdfast, *arguments, env=self.environment())
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    async def api(self, path: str, *, token: str = "", method: str = "GET") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        url = f"{self.address}/api/v1{path}"
        async with self.http.request(method, url, headers=headers) as response:
            return response.status, await response.json()

    async def record_sent(self, delivery: str, chat: str, text: str) -> str:
        """Let the vendor have a message that the killed gateway sent; returns its id there."""
        sent = {"delivery_id": delivery, "chat_id": chat, "text": text}
        async with self.http.post(f"{self._vendor}/send", json=sent) as response:
            return str((await response.json())["message_id"])

    async def wait_for_request(self, chat: str) -> None:
        """Wait until a chat was asked for an approval."""
        async with asyncio.timeout(SETTLES_WITHIN):
            while not any(
                one.text.startswith("May this run?")
                for one in sent_to(await self.people.ledger(), chat)
            ):
                await asyncio.sleep(0.02)

    async def wait_for_text(self, chat: str, text: str) -> None:
        """Wait until a chat has got this text."""
        try:
            async with asyncio.timeout(SETTLES_WITHIN):
                while text not in [one.text for one in sent_to(await self.people.ledger(), chat)]:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            sent = [one.text for one in sent_to(await self.people.ledger(), chat)]
            raise AssertionError(f"{chat} read {sent}, and not {text!r}{self.errors()}") from None


def known_columns(after: Table, before: Table) -> Table:
    """The rows as they are now, without the columns that are new since."""
    return {key: row[: len(before.get(key, row))] for key, row in after.items()}


def sent_to(ledger: Ledger, chat: str) -> list[BotMessage]:
    return [sent for sent in ledger.sent if sent.outgoing.chat_id == chat]


@asynccontextmanager
async def open_upgraded_gateway(
    previous: PreviousHome, model: ModelProcess, *options: str
) -> AsyncIterator[UpgradedGateway]:
    """`options` are the vendor's. No gateway runs yet."""
    model.reset()
    async with vendor(*options) as base_url, aiohttp.ClientSession() as http:
        gateway = UpgradedGateway(previous, model=model, http=http, vendor=base_url)
        try:
            yield gateway
        finally:
            await gateway.end_processes()


class UpgradedRun:
    """What was observed of a gateway of this version on that home, from its start to its stop."""

    def __init__(self, previous: PreviousHome) -> None:
        self.previous = previous
        self.before = previous.tables()
        self.seen: dict[str, Any] = {}
        self.ledger = Ledger(said=(), sent=(), attempts=())
        self.requests: list[dict[str, Any]] = []

    def sent(self, chat: str) -> list[str]:
        return [sent.text for sent in sent_to(self.ledger, chat)]

    def after(self) -> dict[str, Table]:
        return self.previous.tables()

    def schema(self) -> list[tuple[Any, ...]]:
        """With the number of its version."""
        return sorted(self.previous.rows(SCHEMA_SQL))


SCHEMA_SQL = "SELECT type, name, sql, user_version FROM sqlite_schema, pragma_user_version"
# What this version has and that one did not: derived from other rows, or without rows at first.
NEW_TABLES = {
    *("row_counts", "counted", "message_changes", "unreported_ends", "taints"),
    *("usage_mark", "usage_counted", "usage_sums", "added_usage", "summed_usage", "model_usage"),
}


def schema_of_new_home(folder: Path) -> list[tuple[Any, ...]]:
    async def create() -> None:
        async with SqliteStore(folder / "state.db"):
            pass

    asyncio.run(create())
    with open_read_only(folder / "state.db") as cursor:
        return sorted(cursor.execute(SCHEMA_SQL).fetchall())


@pytest.fixture(autouse=True)
def each_store() -> None:
    """Once only: a home of an earlier version has an SQLite file."""


@pytest.fixture(scope="module")
def upgraded(
    tmp_path_factory: pytest.TempPathFactory, model_process: ModelProcess
) -> Iterator[UpgradedRun]:
    """A run with the runner that outlived the killed gateway, in which everything is resumed."""
    previous = PreviousHome(tmp_path_factory.mktemp("home"))
    runner = PreviousRunner(previous, "work")
    upgraded = UpgradedRun(previous)

    async def run() -> None:
        async with open_upgraded_gateway(previous, model_process) as gateway:
            await gateway.start()
            await record_state(gateway, upgraded)
            upgraded.seen["runner"] = runner.alive, runner.pid
            await resume_all(gateway, upgraded)
            await gateway.cli("config", "rollback", "1", "--yes", "--json")
            upgraded.ledger = await gateway.wait_until_settled()
            upgraded.requests = model_process.requests()["requests"]
            await gateway.stop()
            upgraded.seen["runner_ended"] = not runner.alive

    try:
        asyncio.run(run())
        yield upgraded
    finally:
        runner.end()


async def record_state(gateway: UpgradedGateway, upgraded: UpgradedRun) -> None:
    """Record the state before any new message."""
    for question in (
        *("doctor --skip model", "approvals list", "jobs list", "jobs history 2"),
        "config history -n 1000",
    ):
        upgraded.seen[question] = await gateway.cli(*question.split(), "--json")
    work = upgraded.previous.session("work")
    upgraded.seen["runners"] = upgraded.previous.tables()["runners"]
    upgraded.seen["process"] = await gateway.api(f"/sessions/{work}/processes/p1")
    upgraded.seen["viewer"] = await gateway.api("/sessions", token=upgraded.previous.viewer)
    upgraded.seen["viewer_refused"] = await gateway.api(
        f"/sessions/{work}/stop", token=upgraded.previous.viewer, method="POST"
    )


async def resume_all(gateway: UpgradedGateway, upgraded: UpgradedRun) -> None:
    """Release everything that waits, and send new messages."""
    work = upgraded.previous.workspace("work")
    (work / "go").write_text("the true result\n")
    await gateway.wait_for_text("work", "looked")
    (work / "halt").write_text("the last words\n")
    await gateway.people.say(WAIT_MESSAGE, chat="work")
    await gateway.people.say("yes", chat="asked")
    await gateway.people.say(SUDO_MESSAGE, chat="rule")
    await gateway.wait_for_request("rule")
    await gateway.people.say("yes", chat="rule")
    await gateway.people.say("hello [text hello ben]", chat="ben", user="ben")
    await gateway.people.say("who am I [text somebody]", chat="unheard")
    for chat, text in (
        *(("work", "waited"), ("asked", "it is done"), ("rule", "ok"), ("ben", "hello ben")),
        *(("unheard", "somebody"), ("open", "spoken at last"), ("kin", "the kin answered")),
        ("doubt", "did this arrive"),
    ):
        await gateway.wait_for_text(chat, text)


def test_the_home_is_migrated_to_this_version_and_is_healthy(
    upgraded: UpgradedRun, tmp_path: Path
) -> None:
    """K5: its schema is that of a new home; no repair, no problem."""
    assert upgraded.schema() == schema_of_new_home(tmp_path)
    assert upgraded.seen["doctor --skip model"]["healthy"] is True
    assert upgraded.previous.rows("PRAGMA integrity_check") == [("ok",)]
    assert upgraded.previous.rows("SELECT 1 FROM turns WHERE state = 'open'") == []
    assert upgraded.previous.rows("SELECT 1 FROM inbox WHERE ended_at IS NULL") == []


@pytest.mark.parametrize("table", APPEND_ONLY_TABLES)
def test_stored_rows_stay_unchanged(upgraded: UpgradedRun, table: str) -> None:
    """A resumed run only adds rows; the fingerprint of a prompt that is used again now covers the
    instructions of its request, too."""
    before, after = upgraded.before[table], upgraded.after()[table]
    assert before
    columns = slice(2 if table == "prompts" else None)
    kept = {key: row[columns] for key, row in after.items() if key in before}
    assert kept == {key: row[columns] for key, row in before.items()}


def test_an_interrupted_turn_is_resumed_with_a_note_and_answered_once(
    upgraded: UpgradedRun,
) -> None:
    """H1, H3, G2"""
    assert upgraded.sent("open") == ["spoken at last"]
    [said, note, answer] = upgraded.previous.transcript("open")
    assert (said["type"], note["type"], answer["type"]) == ("user", "note", "assistant")
    assert note["text"].startswith("[System note:")


def test_a_resumed_turn_has_the_prompt_that_its_session_began_with(upgraded: UpgradedRun) -> None:
    """It was made on another day, by another version."""
    session = upgraded.previous.session("open")
    [prompt] = [row[1] for row in upgraded.before["prompts"].values() if row[0] == session]
    asked = [one for one in upgraded.requests if "speak at last" in json.dumps(one)]
    assert [one["messages"][0]["content"] for one in asked] == [prompt]


def test_the_runner_is_recognised_and_not_replaced(upgraded: UpgradedRun) -> None:
    """J2: by pid and start time; its row is the one that it had."""
    assert upgraded.seen["runner"] == (
        True,
        next(row[1] for row in upgraded.before["runners"].values()),
    )
    assert upgraded.seen["runners"] == upgraded.before["runners"]
    assert upgraded.seen["runner_ended"], "a stop of the gateway ends its runners"


def test_the_running_command_is_attached_to_and_has_its_true_result(upgraded: UpgradedRun) -> None:
    """H2, J2"""
    [_, ran, *_] = upgraded.previous.results("work")
    assert (ran["name"], ran["text"]) == ("terminal", "the true result")
    assert "outcome" not in ran  # as for every successful call
    effects = (upgraded.previous.workspace("work") / "effects.log").read_text().split()
    assert effects == ["began", "ended"]


def test_the_queued_message_is_answered_next(upgraded: UpgradedRun) -> None:
    """G4, H5: in the order in which they came."""
    assert upgraded.sent("work") == ["it ran", "looked", "waited"]


def test_the_background_process_is_adopted_and_can_be_read(upgraded: UpgradedRun) -> None:
    """J2: over HTTP, by the agent while it runs, and to its end."""
    status, process = upgraded.seen["process"]
    assert (status, process["running"], process["output"]) == (200, True, "ready\n")
    [_, _, looked, waited] = upgraded.previous.results("work")
    assert "p1 running: echo ready;" in looked["text"]
    assert "\nready\n" in looked["text"]
    assert "p1 ended with exit code 0" in waited["text"]
    assert waited["text"].endswith("the last words")


def test_the_pending_approval_still_waits_and_its_answer_resumes_the_turn(
    upgraded: UpgradedRun,
) -> None:
    """J3: it is not asked again, and the command runs once."""
    [waiting] = [one for one in upgraded.seen["approvals list"] if one["state"] == "pending"]
    assert waiting["command"].startswith("mkdir -p free && chmod -R 777 free")
    texts = upgraded.sent("asked")
    assert texts[-1] == "it is done"
    assert not [text for text in texts if text.startswith("May this run?")]
    assert (upgraded.previous.workspace("asked") / "effects.log").read_text() == "asked\n"
    sql = "SELECT state, said_by FROM approvals WHERE id = ?"
    assert upgraded.previous.rows(sql, waiting["id"]) == [("approved", "simulated:default:ann")]


def test_a_standing_approval_of_that_version_is_withdrawn(upgraded: UpgradedRun) -> None:
    """J3: it names no program and no path, so the next command needs an approval again."""
    asked, approved, done = upgraded.sent("rule")
    assert asked.startswith("May this run?")
    assert (approved.startswith("Approved: "), done) == (True, "ok")
    sql = "SELECT count(*) FROM approval_rules"
    assert upgraded.previous.rows(sql) == [(0,)]
    effects = upgraded.previous.workspace("rule") / "effects.log"
    assert effects.read_text() == "allowed\nagain\n"


def test_an_answer_without_a_receipt_is_sent_once_more_and_marked(upgraded: UpgradedRun) -> None:
    """I2"""
    arrived = sent_to(upgraded.ledger, "doubt")
    assert [(one.text, one.outgoing.maybe_repeated) for one in arrived] == [
        ("did this arrive", True)
    ]
    [row] = upgraded.previous.rows(
        "SELECT state, resends FROM outbox WHERE id = ?", unknown_delivery(upgraded)
    )
    assert row == ("sent", 1)
    marked = [one.outgoing.chat_id for one in upgraded.ledger.sent if one.outgoing.maybe_repeated]
    assert marked == ["doubt"]


def unknown_delivery(upgraded: UpgradedRun) -> str:
    """The delivery with an unknown outcome."""
    columns = [
        name for (name,) in upgraded.previous.rows("SELECT name FROM pragma_table_info('outbox')")
    ]
    state, name = columns.index("state"), columns.index("id")
    [found] = [row[name] for row in upgraded.before["outbox"].values() if row[state] == "sending"]
    return str(found)


def test_jobs_keep_their_due_times_and_their_history(upgraded: UpgradedRun) -> None:
    """J4"""
    for question in ("jobs list", "jobs history 2"):
        assert contains_all(upgraded.previous.cli_output[question], upgraded.seen[question])
    due = {job["name"]: job["next_due"] for job in upgraded.seen["jobs list"]}
    assert due["later"] == 2095923600
    assert due["tide"] > due["later"]
    assert due["once"] is None
    assert [run["text"] for run in upgraded.seen["jobs history 2"]] == ["high tide"]
    assert upgraded.sent("jobs") == []


def test_an_ended_subagent_is_there_and_an_interrupted_one_ends(upgraded: UpgradedRun) -> None:
    """H1: with their tasks and replies, each below its parent."""
    sql = "SELECT parent_id, session_id FROM children ORDER BY created_at"
    [(family, ended), (kin, interrupted)] = upgraded.previous.rows(sql)
    assert (family, kin) == (upgraded.previous.session("family"), upgraded.previous.session("kin"))
    said = "SELECT json_extract(body, '$.text') FROM messages WHERE session_id = ? ORDER BY seq"
    assert upgraded.previous.rows(said, ended)[-1] == ("the moorings hold",)
    assert upgraded.previous.rows(said, interrupted)[-1] == ("thought",)
    [result] = upgraded.previous.results("kin")
    assert result["text"].endswith("thought")
    assert upgraded.sent("kin") == ["the kin answered"]
    assert upgraded.sent("family") == []


def test_an_earlier_configuration_can_be_restored(upgraded: UpgradedRun) -> None:
    """All are listed, and its text is restored as a new version."""
    question = "config history -n 1000"
    stored = upgraded.previous.cli_output[question]["configurations"]
    listed = upgraded.seen[question]["versions"][-len(stored) :]
    for each in stored:
        del each["in_force"]  # none was active where no gateway ran
    assert contains_all(stored, listed)
    [(first,)] = upgraded.previous.rows("SELECT text FROM configurations WHERE number = 1")
    assert "max_steps = 30" in first
    assert (upgraded.previous.home / "holdfast.toml").read_text() == first
    [*_, before, last] = upgraded.previous.rows(
        "SELECT text, source FROM configurations ORDER BY number"
    )
    assert "max_steps = 32" in before[0]
    assert last == (first, "rollback")


def test_the_audit_log_continues_from_the_existing_rows(upgraded: UpgradedRun) -> None:
    """One chain, over both versions, and a row for each call that ended in either."""
    verified = json.loads(offline(upgraded.previous, "audit", "verify", "--json"))
    assert verified["broken"] == []
    assert verified["first"] == 1
    assert verified["rows"] == len(upgraded.after()["audit"]) > len(upgraded.before["audit"])
    with IMPLEMENTATIONS["sqlite"].stored_rows(upgraded.previous.db) as rows:
        violations = audit_checks.audit_violations(rows.table("steps"), rows.table("audit"))
        assert list(violations) == []


def test_notes_are_known_in_a_new_conversation(upgraded: UpgradedRun) -> None:
    """By the owner of the note, and not by its session."""
    [asked] = [one for one in upgraded.requests if "who am I" in json.dumps(one)]
    assert "Sails on Thursdays." in asked["messages"][0]["content"]


def test_paired_users_stay_allowed_and_viewers_stay_read_only(upgraded: UpgradedRun) -> None:
    assert upgraded.sent("ben") == ["hello ben"]
    assert upgraded.seen["viewer"][0] == 200
    assert upgraded.seen["viewer_refused"][0] == 403


@pytest.fixture(scope="module")
def without_runner(
    tmp_path_factory: pytest.TempPathFactory, model_process: ModelProcess
) -> UpgradedRun:
    """A run without a runner of the predecessor, at a vendor with lookup."""
    previous = PreviousHome(tmp_path_factory.mktemp("home"))
    upgraded = UpgradedRun(previous)

    async def run() -> None:
        async with open_upgraded_gateway(previous, model_process, "--lookup") as gateway:
            upgraded.seen["arrived"] = await gateway.record_sent(
                unknown_delivery(upgraded), "doubt", "did this arrive"
            )
            await gateway.start()
            for chat, text in (("work", "looked"), ("open", "spoken at last")):
                await gateway.wait_for_text(chat, text)
            await gateway.until(
                lambda: delivery_state(previous, unknown_delivery(upgraded)) != "sending"
            )
            upgraded.ledger = await gateway.people.ledger()
            await gateway.stop()

    asyncio.run(run())
    return upgraded


def delivery_state(previous: PreviousHome, delivery: str) -> str:
    [(state,)] = previous.rows("SELECT state FROM outbox WHERE id = ?", delivery)
    return str(state)


def test_an_answer_that_has_arrived_is_found_by_its_id_and_not_sent_again(
    without_runner: UpgradedRun,
) -> None:
    """I2: where the platform can be asked."""
    sql = "SELECT state, platform_message_id, resends FROM outbox WHERE id = ?"
    assert without_runner.previous.rows(sql, unknown_delivery(without_runner)) == [
        ("sent", without_runner.seen["arrived"], 0)
    ]
    assert without_runner.sent("doubt") == ["did this arrive"]


def test_a_command_whose_runner_is_gone_is_reported_as_unknown_and_not_run_again(
    without_runner: UpgradedRun,
) -> None:
    """H2, J2: its record in the spool says that it was begun, and no more."""
    [_, ran, looked] = without_runner.previous.results("work")
    assert (ran["name"], ran["outcome"]) == ("terminal", "unknown")
    assert "p1 ended (lost: its sandbox ended under it)" in looked["text"]
    assert "\nready\n" in looked["text"]
    assert (without_runner.previous.workspace("work") / "effects.log").read_text() == "began\n"
    assert without_runner.sent("work") == ["it ran", "looked"]


def test_an_unanswered_approval_stays_pending(without_runner: UpgradedRun) -> None:
    """J3"""
    assert without_runner.sent("asked") == []
    sql = "SELECT state FROM approvals ORDER BY asked_at DESC LIMIT 1"
    assert without_runner.previous.rows(sql) == [("pending",)]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> PreviousHome:
    """The home as it was packed, without a gateway."""
    return PreviousHome(tmp_path_factory.mktemp("home"))


def offline(previous: PreviousHome, *arguments: str) -> str:
    """The output of the command line without a gateway."""
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
    unpacked: PreviousHome,
) -> None:
    """Value for value, besides new keys."""
    before = unpacked.tables()
    assert len(unpacked.cli_output) == 14
    for question, said in unpacked.cli_output.items():
        words = [RENAMED_OPTIONS.get(word, word) for word in question.split()]
        text = offline(unpacked, *words, "--json")
        rows = question.startswith("audit -n")  # in lines, each of them JSON
        now = json.loads(f"[{','.join(text.splitlines())}]" if rows else text)
        if question.startswith("sessions show"):
            now = without_undone(now)
        assert contains_all(said, now), f"{question}:\n{said}\n{now}"
    after = unpacked.tables()
    assert set(after) - set(before) <= NEW_TABLES  # opening it has migrated it
    assert {name: known_columns(after[name], before[name]) for name in before} == before


def without_undone(shown: dict[str, Any]) -> dict[str, Any]:
    """A session without what /undo took back, which that version showed with a gateway only."""
    records = [each for each in shown["records"] if not each["undone"]]
    shown_turns = {each["turn_id"] for each in records}
    turns = [each for each in shown["turns"] if each["id"] in shown_turns]
    return {**shown, "records": records, "turns": turns}


def contains_all(before: Any, now: Any) -> bool:
    """Whether all values are still there; objects may have more keys."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(
            (name := key if key in now else RENAMED_KEYS.get(key)) in now
            and contains_all(
                SHOWN_PLATFORMS.get(value, value) if key == "platform" else value, now[name]
            )
            for key, value in before.items()
        )
    if isinstance(before, list):
        return (
            isinstance(now, list)
            and len(before) == len(now)
            and all(map(contains_all, before, now))
        )
    return bool(before == now)
