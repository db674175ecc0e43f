"""`holdfast jobs`: created, shown and changed from the shell, with and without a gateway."""

import json
import time
import urllib.request
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.command_line import Cli, CliGateway

from holdfast.system import exit_codes


def test_jobs_are_made_listed_run_and_removed(shared_gateway: CliGateway, cli: Cli) -> None:
    """J4: its answer is in its history, also if it is sent to no person."""

    def jobs(*args: str) -> str:
        done = cli("jobs", *args, **shared_gateway.environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    zone = next(each for each in ("Europe/Berlin", "Asia/Tokyo") if time_zone_far_from_nine(each))
    output = jobs("add", "every weekday at 9", "say hi [text hi there]", "--zone", zone)
    number = output.split(":")[0].removeprefix("Job ")
    assert f"(0 9 * * 1-5, {zone})" in output and "not sent anywhere" in output
    assert "every weekday at 9" in jobs("list") and "nowhere" in jobs("list")
    job = json.loads(jobs("show", number, "--json"))
    assert (job["cron"], job["missed"], job["overlap"]) == ("0 9 * * 1-5", "once", "skip")
    assert "sent to" in jobs("show", number)
    assert jobs("pause", number) == f"Job {number} is paused.\n"
    assert "paused" in jobs("list")
    assert jobs("resume", number).startswith(f"Job {number} is resumed. Next: ")
    changed = jobs("edit", number, "--when", "every weekday at 8", "--silent", "--missed", "skip")
    assert changed.startswith(f"Job {number} is changed: every weekday at 8 (0 8 * * 1-5, {zone})")
    job = json.loads(jobs("edit", number, "--name", "greeting", "--not-silent", "--json"))
    assert (job["cron"], job["name"], job["missed"]) == ("0 8 * * 1-5", "greeting", "skip")
    assert json.loads(jobs("edit", number, "--name", "", "--json"))["name"] == job["text"]
    assert jobs("history", number) == f"Job {number} has not run yet.\n"
    assert "runs now" in jobs("run", number)
    assert wait_until_ended(jobs, number)["text"] == "hi there"
    assert "hi there" in jobs("history", number)
    assert jobs("stop", number) == f"Job {number} is not running.\n"
    assert jobs("rm", number) == f"Job {number} is removed.\n"
    gone = cli("jobs", "show", number, **shared_gateway.environ)
    assert gone.returncode == exit_codes.FAILED
    assert gone.stderr == f"error: There is no job {number}. `holdfast jobs list` lists all jobs.\n"


def test_a_failing_job_is_a_problem_in_status_doctor_and_on_the_overview(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    """J4: all three read one source and agree, until a run succeeds; also without a gateway."""

    def run(*args: str) -> str:
        return cli(*args, **shared_gateway.environ).stdout

    def problems() -> list[list[str]]:
        """As the status, the doctor and the API of the page report them."""
        findings = json.loads(run("doctor", "--json", "--skip", "model"))["findings"]
        reported = json.loads(run("status", "--json"))["problems"]
        request = urllib.request.Request(
            f"{shared_gateway.address}/api/v1/status",
            headers={"Authorization": f"Bearer {run('token').strip()}"},
        )
        with urllib.request.urlopen(request) as answer:
            shown = json.load(answer)["problems"]
        return [
            [each["what"] for each in of if f"job {number} " in each["what"]]
            for of in (reported, findings, shown)
        ]

    name = "refused [times 1] [status 401] [then] [text fine]"
    output = run("jobs", "add", "every weekday at 9", name, "--name", "news")
    number = output.split(":")[0].removeprefix("Job ")
    run("jobs", "run", number)
    failed = wait_until_ended(lambda *args: run("jobs", *args), number)
    assert failed["state"] == "failed" and failed["reason"]
    row = next(line for line in run("jobs", "list").splitlines() if line.startswith(number))
    assert "failed" in row and failed["reason"][:30] in run("jobs", "show", number)
    (in_status,), (in_doctor,), (on_page,) = problems()
    assert in_status == in_doctor == on_page
    assert in_status.startswith(f"The last run of job {number} (news) failed: ")
    assert in_status in run("status")
    run("jobs", "pause", number)
    assert problems() == [[], [], []], "a person has seen it"
    run("jobs", "rm", number)


def time_zone_far_from_nine(zone: str) -> bool:
    """A time zone in which nothing is due while the test runs."""
    return datetime.now(ZoneInfo(zone)).hour not in (8, 9)


def wait_until_ended(jobs: Callable[..., str], number: str) -> dict[str, Any]:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        [run] = json.loads(jobs("history", number, "--json"))
        if run["ended_at"] is not None:
            return dict(run)
    raise AssertionError(f"it has not ended: {run}")


def test_an_invalid_job_is_refused_with_a_reason(shared_gateway: CliGateway, cli: Cli) -> None:
    refused = cli("jobs", "add", "every weekday att 9", "x", **shared_gateway.environ)
    assert refused.returncode == exit_codes.FAILED
    assert "I understood “every weekday”, but not “att 9”." in refused.stderr
    empty = cli("jobs", "add", "", "x", **shared_gateway.environ)
    assert empty.returncode == exit_codes.USAGE and "WHEN is empty." in empty.stderr
    for options, message in (
        ((), "No change given"),
        (("--zone", "Europe/Berlin"), "--zone applies to --when: give both."),
        (("--text", " "), "--text is empty."),
    ):
        refused = cli("jobs", "edit", "999", *options, **shared_gateway.environ)
        assert refused.returncode == exit_codes.USAGE and message in refused.stderr
    missing = cli("jobs", "edit", "999", "--text", "look", **shared_gateway.environ)
    assert missing.returncode == exit_codes.FAILED and "There is no job 999" in missing.stderr


def test_without_a_gateway_jobs_can_be_read_and_not_made(gateway: CliGateway, cli: Cli) -> None:
    """K1: the command line takes the lock itself, and reads."""
    when = f"every day at {(time.localtime().tm_hour + 12) % 24:02}:00"  # not while this runs
    assert cli("jobs", "add", when, "look", **gateway.environ).returncode == 0
    gateway.stop()
    assert when in cli("jobs", "list", **gateway.environ).stdout
    assert "look" in cli("jobs", "show", "1", **gateway.environ).stdout
    assert cli("jobs", "history", "1", **gateway.environ).stdout == "Job 1 has not run yet.\n"
    missing = cli("jobs", "show", "7", **gateway.environ)
    assert missing.returncode == exit_codes.FAILED and "There is no job 7" in missing.stderr
    for change in (("run", "1"), ("edit", "1", "--text", "look away")):
        assert cli("jobs", *change, **gateway.environ).returncode == exit_codes.GATEWAY_DOWN
