"""What is done beside conversations in the table of `/api/v1`: memory and jobs."""

from holdfast.server.api.endpoint import Endpoint
from holdfast.server.api.v1 import jobs, memory
from holdfast.server.api.views.jobs import JobList, JobParams, JobPatch, JobRunView, JobView
from holdfast.server.api.views.memory import NewNote, NotebookChange, NotebookList, NotebookView
from holdfast.server.api.views.message_views import StopResult

_SESSION = "/sessions/{id}"
_JOB = "/jobs/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/memory",
        summary="What is noted about people, and in places that they share.",
        handler=memory.list_notebooks,
        read_only=True,
        query=memory.MemoryQuery,
        response_type=NotebookList,
    ),
    Endpoint(
        method="POST",
        path="/memory",
        summary="Add a note, or with its id change one.",
        handler=memory.save_note,
        read_only=False,
        request_type=NewNote,
        response_type=NotebookView,
        error_statuses=(404, 409),
    ),
    Endpoint(
        method="PATCH",
        path="/memory",
        summary="Turn the memory of an owner off or on; the notes stay.",
        handler=memory.change_notebook,
        read_only=False,
        request_type=NotebookChange,
        response_type=NotebookView,
    ),
    Endpoint(
        method="DELETE",
        path="/memory",
        summary="Forget a note, or without its id all of an owner's.",
        handler=memory.delete_notes,
        read_only=False,
        query=memory.DeleteNotesQuery,
        response_type=NotebookView,
        error_statuses=(404,),
    ),
    Endpoint(
        method="GET",
        path="/jobs",
        summary="What agents are to do at certain times, the oldest first.",
        handler=jobs.list_jobs,
        read_only=True,
        query=jobs.JobsQuery,
        response_type=JobList,
    ),
    Endpoint(
        method="POST",
        path="/jobs",
        summary="Have something done later or regularly.",
        handler=jobs.add_job,
        read_only=False,
        request_type=JobParams,
        response_type=JobView,
        statuses=(201,),
    ),
    Endpoint(
        method="GET",
        path=_JOB,
        summary="One job.",
        handler=jobs.read_job,
        read_only=True,
        response_type=JobView,
    ),
    Endpoint(
        method="PATCH",
        path=_JOB,
        summary="Pause a job or let it go on, or have it do something else, or at other times.",
        handler=jobs.change_job,
        read_only=False,
        request_type=JobPatch,
        response_type=JobView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="DELETE",
        path=_JOB,
        summary="Remove a job with its history; what runs goes on to its end.",
        handler=jobs.remove_job,
        read_only=False,
        statuses=(204,),
    ),
    Endpoint(
        method="POST",
        path=f"{_JOB}/run",
        summary="Run a job now, as if it were due.",
        handler=jobs.run_job,
        read_only=False,
        response_type=JobRunView,
        statuses=(202,),
        error_statuses=(409,),
    ),
    Endpoint(
        method="POST",
        path=f"{_JOB}/stop",
        summary="Stop what runs of a job, and drop what waits behind it.",
        handler=jobs.stop_job,
        read_only=False,
        response_type=StopResult,
    ),
    Endpoint(
        method="GET",
        path=f"{_JOB}/runs",
        summary="What became of the runs of a job, the newest first.",
        handler=jobs.list_job_runs,
        read_only=True,
        query=jobs.JobRunsQuery,
        response_type=list[JobRunView],
    ),
)
