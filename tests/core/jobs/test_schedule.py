"""Schedules: phrases become due times, also across changes of summer time."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ids import PrincipalId
from holdfast.core.jobs.job import (
    SKIPPED_BUSY,
    SKIPPED_QUEUE_FULL,
    Job,
    JobId,
    JobRefused,
    JobSpec,
    MissedRunPolicy,
    NewRun,
    OverlapPolicy,
    RunCause,
    RunSession,
    apply_overlap_policy,
    plan_runs,
)
from holdfast.core.jobs.parser import parse_duration, parse_job, parse_schedule, split_zone
from holdfast.core.jobs.schedule import (
    InvalidSchedule,
    Schedule,
    due_times,
    first_due_times,
    next_due,
    normalise_cron,
    shortest_gap,
)
from holdfast.core.messages.source import Source
from holdfast.gateway.jobs.time_zones import MachineZone, zone_of

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 4, 20, tzinfo=BERLIN).timestamp()  # a Monday


def parsed(text: str) -> Schedule:
    return parse_schedule(text, now=NOW, zone=BERLIN, zone_name="Europe/Berlin")


def at(zone: ZoneInfo, *moment: int, fold: int = 0) -> float:
    return datetime(*moment, tzinfo=zone, fold=fold).timestamp()  # type: ignore[misc,arg-type]


def cron(expression: str) -> Schedule:
    return Schedule(text=expression, cron=expression)


def shown(schedule: Schedule, after: float, zone: ZoneInfo, number: int) -> list[str]:
    times = first_due_times(schedule, after, zone, limit=number)
    return [datetime.fromtimestamp(each, zone).strftime("%d %H:%M %z") for each in times]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("every weekday at 9", "0 9 * * 1-5"),
        ("Every  Weekday at 9am", "0 9 * * 1-5"),
        ("weekdays at 17:45", "45 17 * * 1-5"),
        ("every weekend at noon", "0 12 * * 0,6"),
        ("daily at 18:30", "30 18 * * *"),
        ("every day at 9, 12 and 18", "0 9,12,18 * * *"),
        ("every mon, wed and fri at 7:15", "15 7 * * 1,3,5"),
        ("mondays at 12am", "0 0 * * 1"),
        ("every week on tuesday at 8", "0 8 * * 2"),
        ("every hour at :15", "15 * * * *"),
        ("every month on the 1st at 8:30", "30 8 1 * *"),
        ("monthly on the 1st and last day at midnight", "0 0 1,L * *"),
        ("@weekly", "0 0 * * 0"),
        ("*/5 8-18 * * 1-5", "*/5 8-18 * * 1-5"),
    ],
)
def test_a_phrase_becomes_a_cron_expression(text: str, expression: str) -> None:
    assert parsed(text).cron == expression


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("every 10 minutes", 600),
        ("every minute", 60),
        ("every hour", 3600),
        ("every day", 86400),
        ("every 2 weeks", 1209600),
        ("every 1 hour and 30 minutes", 5400),
    ],
)
def test_an_interval_counts_from_its_creation(text: str, seconds: int) -> None:
    schedule = parsed(text)
    assert first_due_times(schedule, NOW, BERLIN, limit=2) == [NOW + seconds, NOW + 2 * seconds]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-01 09:00", (2026, 12, 1, 9, 0)),
        ("2026-12-01T09:00:00", (2026, 12, 1, 9, 0)),
        ("on 2026-12-01 at 9", (2026, 12, 1, 9, 0)),
        ("2026-12-01T09:00Z", (2026, 12, 1, 10, 0)),
        ("2026-12-01T09:00-05:00", (2026, 12, 1, 15, 0)),
        ("in 20 minutes", (2026, 11, 16, 4, 40)),
        ("in half an hour", (2026, 11, 16, 4, 50)),
        ("in 1 day 2 hours", (2026, 11, 17, 6, 20)),
        ("tomorrow at 9pm", (2026, 11, 17, 21, 0)),
        ("today at 18:00", (2026, 11, 16, 18, 0)),
        ("at 4:19", (2026, 11, 17, 4, 19)),
        ("at 4:21", (2026, 11, 16, 4, 21)),
        ("on friday at 9", (2026, 11, 20, 9, 0)),
        ("monday at 4", (2026, 11, 23, 4, 0)),
    ],
)
def test_a_date_comes_once(text: str, moment: tuple[int, ...]) -> None:
    assert first_due_times(parsed(text), NOW, BERLIN, limit=3) == [at(BERLIN, *moment)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("every weekday att 9", "I understood “every weekday”, but not “att 9”."),
        ("every 2 days at 9", "I understood “every 2 days”, but not “at 9”."),
        ("every month at 9", "I understood “every month”, but not “at 9”."),
        ("tomorrow", "I understood “tomorrow”, but that is not a schedule yet."),
        ("every day at 9 and 10:30", "I understood “every day at 9 and 10:30”, but that is"),
        ("banana", "I do not understand “banana”."),
        ("every day at 25", "“25” is not a time of day."),
        ("2026-02-30 09:00", "“2026-02-30 09:00” is not a date"),
        ("2026-11-15 09:00", "“2026-11-15 09:00” is in the past."),
        ("9999-12-31T23:59-14:00", "“9999-12-31T23:59-14:00” is more than ten years away."),
        ("0001-01-01 09:00", "“0001-01-01 09:00” is in the past."),
        ("every 999999 weeks", "“every 999999 weeks” is more than ten years."),
        ("61 * * * *", "'61 * * * *' is not a valid cron expression: bad minute"),
        ("0 0 30 2 *", "'0 0 30 2 *' is not a valid cron expression: bad day-of-month"),
        ("0 9 * *", "A cron expression has five fields (minute hour day month weekday); this"),
        ("@often", "I do not understand “@often”. Known are @hourly"),
        ("", "The time is missing."),
    ],
)
def test_an_invalid_schedule_is_refused_with_the_part_that_was_understood(
    text: str, message: str
) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parsed(text)
    assert str(refused.value).startswith(message)


def test_a_cron_expression_has_five_fields_and_a_day_that_comes() -> None:
    with pytest.raises(InvalidSchedule, match="five fields"):
        normalise_cron("0 9 * *")
    with pytest.raises(InvalidSchedule, match="bad day-of-month"):
        normalise_cron("0 0 31 2,4 *")


def test_a_phrase_may_end_with_a_time_zone() -> None:
    assert split_zone("every day at 9 in Europe/Berlin") == ("every day at 9", "Europe/Berlin")
    assert split_zone("every day at 9 in UTC") == ("every day at 9", "UTC")
    assert split_zone("in 2 hours") == ("in 2 hours", "")
    with pytest.raises(InvalidSchedule, match="does not know the time zone"):
        zone_of("Mars/Base")


def test_an_hour_that_is_missing_moves_a_job_to_the_first_minute_there_is() -> None:
    """DST, forwards: 29 March 2026 has no half past two in Berlin."""
    eve = at(BERLIN, 2026, 3, 28, 12, 0)
    assert shown(cron("30 2 * * *"), eve, BERLIN, 3) == [
        "29 03:00 +0200",
        "30 02:30 +0200",
        "31 02:30 +0200",
    ]
    assert shown(cron("*/30 * * * *"), at(BERLIN, 2026, 3, 29, 1, 29), BERLIN, 3) == [
        "29 01:30 +0100",
        "29 03:00 +0200",
        "29 03:30 +0200",
    ]


def test_an_hour_that_comes_twice_runs_a_job_once() -> None:
    """DST, backwards: 25 October 2026 has half past two twice in Berlin; what is due every half
    hour goes by real time."""
    eve = at(BERLIN, 2026, 10, 24, 12, 0)
    assert shown(cron("30 2 * * *"), eve, BERLIN, 2) == ["25 02:30 +0200", "26 02:30 +0100"]
    # Asked within the second of the two hours, in which the first one's time looks like to come.
    second = at(BERLIN, 2026, 10, 25, 2, 10, fold=1)
    assert shown(cron("30 2 * * *"), second, BERLIN, 1) == ["26 02:30 +0100"]
    assert shown(cron("*/30 * * * *"), at(BERLIN, 2026, 10, 25, 1, 59), BERLIN, 5) == [
        "25 02:00 +0200",
        "25 02:30 +0200",
        "25 02:00 +0100",
        "25 02:30 +0100",
        "25 03:00 +0100",
    ]


@pytest.mark.parametrize(
    ("zone", "after", "expression", "expected"),
    [
        # A zone of the south, where summer ends in April; and one that moves by half an hour.
        ("America/Santiago", (2026, 4, 4, 12, 0), "30 23 * * *", "04 23:30 -0300"),
        ("Australia/Lord_Howe", (2026, 10, 3, 12, 0), "15 2 * * *", "04 02:30 +1100"),
        # Samoa had no 30 December in 2011: the first minute behind it is the next day's first.
        ("Pacific/Apia", (2011, 12, 29, 12, 0), "0 9 * * *", "31 00:00 +1400"),
        # Cairo's summer begins at midnight, which is not there.
        ("Africa/Cairo", (2026, 4, 23, 12, 0), "0 0 * * *", "24 01:00 +0300"),
    ],
)
def test_other_zones_move_their_clocks_in_other_ways(
    zone: str, after: tuple[int, ...], expression: str, expected: str
) -> None:
    where = ZoneInfo(zone)
    assert shown(cron(expression), at(where, *after), where, 1) == [expected]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Africa/Cairo"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "0 0 * * *", "15 */3 * * *"])
def test_due_times_increase_and_are_unique(zone: str, expression: str) -> None:
    """Asked one by one, from each to the next, they are those of one long look."""
    where = ZoneInfo(zone)
    after = at(where, 2026, 3, 7, 0, 0)
    whole = first_due_times(cron(expression), after, where, limit=60)
    assert whole == sorted(set(whole))
    one_by_one: list[int] = []
    for _ in whole:
        due = next_due(cron(expression), after, where)
        assert due is not None
        one_by_one.append(due)
        after = due
    assert one_by_one == whole


def test_the_last_due_times_are_found_without_counting_all_of_them() -> None:
    first = int(at(BERLIN, 2016, 1, 1, 0, 0))
    until = at(BERLIN, 2026, 1, 1, 0, 0)
    times, more = due_times(cron("* * * * *"), first=first, until=until, limit=3, zone=BERLIN)
    assert (times, more) == ([until - 120, until - 60, until], True)
    times, more = due_times(
        cron("0 9 1 1 *"), first=first + 9 * 3600, until=until, limit=100, zone=BERLIN
    )
    assert (len(times), more) == (10, False)
    once = Schedule(text="x", at=first)
    assert due_times(once, first=first, until=until, limit=3, zone=BERLIN) == ([first], False)
    every = Schedule(text="x", every=3600, start=first)
    times, more = due_times(every, first=first + 3600, until=until, limit=2, zone=BERLIN)
    assert (times, more) == ([until - 3600, until], True)


def test_the_shortest_gap_is_found_wherever_it_is() -> None:
    assert shortest_gap(cron("0,5,10,15,20,25,30,35,40,45,50,59 * * * *"), NOW, BERLIN) == 60
    assert shortest_gap(cron("0 9 * * *"), NOW, BERLIN) == 86400
    assert shortest_gap(cron("0 9 29 2 *"), NOW, BERLIN) is None
    assert shortest_gap(Schedule(text="x", at=int(NOW) + 5), NOW, BERLIN) is None


def test_the_machines_own_zone_knows_its_offsets() -> None:
    zone = MachineZone()
    for moment in (NOW, NOW + 180 * 86400):
        there = datetime.fromtimestamp(moment, zone)
        assert there.timestamp() == moment
        assert there.utcoffset() == datetime.fromtimestamp(moment).astimezone().utcoffset()
    assert next_due(cron("0 9 * * *"), NOW, zone) is not None
    assert zone.tzname(None) and zone.dst(None) is None


def test_the_machines_own_zone_has_its_summer_time() -> None:
    """In a process of its own, whose machine is in Berlin."""
    program = (
        "from holdfast.core.jobs.schedule import Schedule, first_due_times\n"
        "from holdfast.gateway.jobs.time_zones import zone_of\n"
        "daily = Schedule(text='x', cron='30 2 * * *')\n"
        "print(first_due_times(daily, %d, zone_of(''), limit=2))"
    )
    for eve in (at(BERLIN, 2026, 3, 28, 12, 0), at(BERLIN, 2026, 10, 24, 12, 0)):
        done = subprocess.run(
            [sys.executable, "-c", program % eve],
            env={"TZ": "Europe/Berlin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(first_due_times(cron("30 2 * * *"), eve, BERLIN, limit=2))


def a_job(
    missed: MissedRunPolicy = MissedRunPolicy.ONCE, overlap: OverlapPolicy = OverlapPolicy.SKIP
) -> Job:
    spec = JobSpec(
        name="n",
        text="t",
        schedule=cron("0 9 * * *"),
        source=Source(platform="x", chat_id="c", user_id="u"),
        missed=missed,
        overlap=overlap,
    )
    return Job(
        id=JobId(7), principal=PrincipalId("p"), spec=spec, paused=False, next_due=100, made_at=0
    )


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        (
            MissedRunPolicy.SKIP,
            [(200, RunCause.MISSED, "2 due times missed"), (300, RunCause.DUE, None)],
        ),
        (MissedRunPolicy.ONCE, [(300, RunCause.DUE, None)]),
        (
            MissedRunPolicy.ALL,
            [(100, RunCause.MISSED, None), (200, RunCause.MISSED, None), (300, RunCause.DUE, None)],
        ),
    ],
)
def test_each_policy_makes_its_runs_of_the_times_that_passed(
    missed: MissedRunPolicy, expected: list[tuple[int, RunCause, str | None]]
) -> None:
    """J4: the missed policies."""
    runs = plan_runs(a_job(missed), [100, 200, 300], more=False, now=310, late_after=60)
    assert [(run.due_at, run.cause, run.skip_reason) for run in runs] == expected


def test_missed_runs_beyond_the_limit_are_reported() -> None:
    [note, *_] = plan_runs(
        a_job(MissedRunPolicy.ALL), [200, 300], more=True, now=310, late_after=60
    )
    assert (note.due_at, note.skip_reason) == (199, "earlier due times missed")


def test_overlapping_runs_are_skipped_or_wait_up_to_a_limit() -> None:
    """J4: the overlap policies."""
    runs = [
        NewRun(id=str(n), job_id=JobId(7), cause=RunCause.DUE, due_at=n, skip_reason=None)
        for n in range(3)
    ]
    free = apply_overlap_policy(a_job(), runs, waiting=0, busy=False)
    assert [run.skip_reason for run in free] == [None] * 3
    busy = apply_overlap_policy(a_job(), runs, waiting=0, busy=True)
    assert [run.skip_reason for run in busy] == [SKIPPED_BUSY] * 3
    queued = apply_overlap_policy(a_job(overlap=OverlapPolicy.QUEUE), runs, waiting=98, busy=True)
    assert [run.skip_reason for run in queued] == [None, None, SKIPPED_QUEUE_FULL]


def test_a_job_is_read_as_it_is_typed() -> None:
    expected = parse_job(
        '“every day at 9” name="the news" to=home session=fresh silent=yes missed=all '
        "overlap=queue limit=10m zone=UTC Say what is new=here"
    )
    assert (expected.when, expected.name, expected.to) == ("every day at 9", "the news", "home")
    assert (expected.runs_in, expected.silent, expected.missed) == (
        RunSession.FRESH,
        True,
        MissedRunPolicy.ALL,
    )
    assert (expected.overlap, expected.limit, expected.zone) == (OverlapPolicy.QUEUE, 600, "UTC")
    assert expected.text == "Say what is new=here"
    with pytest.raises(JobRefused, match="silent=maybe is not allowed"):
        parse_job('"at 9" silent=maybe x')


@pytest.mark.parametrize("limit", ["-5", "-5m", "5", "nan", "inf", "1e9", "soon", "10000000000h"])
def test_an_invalid_time_limit_is_refused_by_name(limit: str) -> None:
    with pytest.raises(JobRefused, match=f"^limit={limit} is not allowed: limit is the longest"):
        parse_job(f'"at 9" limit={limit} x')


def test_a_limit_of_zero_means_no_limit() -> None:
    assert parse_job('"at 9" limit=0 x').limit == 0


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("1 hour 30 minutes", 5400), ("2d", 172800)]
)
def test_a_duration_is_parsed(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


def test_a_due_time_in_utc_is_in_utc() -> None:
    due = next_due(cron("0 9 * * *"), NOW, UTC)
    assert due is not None and datetime.fromtimestamp(due, UTC).hour == 9


WORDS = re.findall(
    r"\S+",
    """
    every each weekday weekends mon mondays day daily hour hourly week month monthly minute at on
    the 1st 31 last and , 9 25 9:30 12am 13pm noon in a an half 2 hours 10m today tomorrow Z
    2026-12-01 9999-12-31 T09:00 +14:00 -23:59 +99:99 * */5 0 1-5 L LW 1#2 5L JAN MON @daily
    1/0 */0 L/2 1#2/3 :15
    """,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join) | st.text(max_size=30))
def test_every_text_is_a_schedule_or_is_refused_with_a_reason(text: str) -> None:
    words, _ = split_zone(text)
    try:
        schedule = parsed(words)
    except InvalidSchedule as refused:
        assert str(refused)
        return
    assert all(due > NOW for due in first_due_times(schedule, NOW, BERLIN, limit=2))
