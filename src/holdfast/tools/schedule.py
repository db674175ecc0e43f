"""The tool `schedule`: adds, lists, pauses, resumes and removes jobs."""

from typing import Literal

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.jobs.job import SCHEDULE_TOOL, JobChangeKind, JobPort, JobRequest
from holdfast.core.turns.external import Effect, EffectKind
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema


class ScheduleArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["add", "list", "pause", "resume", "remove"]
    when: str = ""
    task: str = ""
    silent: bool = False
    id: int | None = None


class ScheduleTool:
    """Adding counts once a call, and so does the rest: one whose outcome was lost is made
    again."""

    schema = make_schema(
        SCHEDULE_TOOL,
        "Have a task done later by an agent of its own, which knows only the task and answers "
        'here. when: "in 2 hours", "every weekday at 9", "2026-12-01 09:00", cron. silent: '
        "says nothing unless there is something to tell.",
        ScheduleArguments,
    )
    toolset = SCHEDULE_TOOL
    replay = ReplayClass.ATTACH
    danger = Danger.NONE

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        asked, jobs = decode(ScheduleArguments, arguments), context.jobs
        if jobs is None:
            raise ToolFailed("nothing can be scheduled here")
        try:
            return ToolOutput(text=await _run_action(asked, jobs, context))
        except HoldfastError as error:
            raise ToolFailed(str(error)) from None

    def effect(self, arguments: Arguments) -> Effect | None:
        try:
            asked = decode(ScheduleArguments, arguments)
        except ToolFailed:
            return None
        if asked.action == "list":
            return None
        details = f" {asked.id}" if asked.action != "add" else f" {asked.when}: {asked.task}"
        return Effect(kind=EffectKind.SCHEDULE, text=f"schedule {asked.action}{details}")

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None


async def _run_action(asked: ScheduleArguments, jobs: JobPort, context: ToolContext) -> str:
    if asked.action == "list":
        return await jobs.list_jobs()
    if asked.action == "add":
        request = JobRequest(when=asked.when, text=asked.task, silent=asked.silent)
        return await jobs.add(context.call_id, request)
    if asked.id is None:
        raise ToolFailed(f"{asked.action} needs the id of a job; list shows them.")
    return await jobs.change_job(asked.id, JobChangeKind(asked.action))
