"""What is done beside conversations in the table of `/api/v1`: memory and jobs."""

from holdfast.server.api.endpoint import Endpoint
from holdfast.server.api.v1 import jobs, memory
from holdfast.server.api.views.jobs import JobChanged, JobList, JobView, NewJob, RunView
from holdfast.server.api.views.memory import NewNote, NotebookChange, NotebookList, NotebookView
from holdfast.server.api.views.message_views import Stopped

_SESSION = "/sessions/{id}"
_JOB = "/jobs/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/memory",
        about="What is noted about people, and in places that they share.",
        handler=memory.list_notebooks,
        looks=True,
        query=memory.MemoryQuery,
        gives=NotebookList,
    ),
    Endpoint(
        method="POST",
        path="/memory",
        about="Add a note, or with its id change one.",
        handler=memory.keep_note,
        looks=False,
        takes=NewNote,
        gives=NotebookView,
        refuses=(404, 409),
    ),
    Endpoint(
        method="PATCH",
        path="/memory",
        about="Turn the memory of an owner off or on; the notes stay.",
        handler=memory.change_notebook,
        looks=False,
        takes=NotebookChange,
        gives=NotebookView,
    ),
    Endpoint(
        method="DELETE",
        path="/memory",
        about="Forget a note, or without its id all of an owner's.",
        handler=memory.forget,
        looks=False,
        query=memory.ForgetQuery,
        gives=NotebookView,
        refuses=(404,),
    ),
    Endpoint(
        method="GET",
        path="/jobs",
        about="What agents are to do at certain times, the oldest first.",
        handler=jobs.list_jobs,
        looks=True,
        query=jobs.JobsQuery,
        gives=JobList,
    ),
    Endpoint(
        method="POST",
        path="/jobs",
        about="Have something done later or regularly.",
        handler=jobs.add_job,
        looks=False,
        takes=NewJob,
        gives=JobView,
        statuses=(201,),
    ),
    Endpoint(
        method="GET",
        path=_JOB,
        about="One job.",
        handler=jobs.read_job,
        looks=True,
        gives=JobView,
    ),
    Endpoint(
        method="PATCH",
        path=_JOB,
        about="Pause a job or let it go on, or have it do something else, or at other times.",
        handler=jobs.change_job,
        looks=False,
        takes=JobChanged,
        gives=JobView,
        refuses=(409,),
    ),
    Endpoint(
        method="DELETE",
        path=_JOB,
        about="Remove a job with its history; what runs goes on to its end.",
        handler=jobs.remove_job,
        looks=False,
        statuses=(204,),
    ),
    Endpoint(
        method="POST",
        path=f"{_JOB}/run",
        about="Run a job now, as if it were due.",
        handler=jobs.run_job,
        looks=False,
        gives=RunView,
        statuses=(202,),
        refuses=(409,),
    ),
    Endpoint(
        method="POST",
        path=f"{_JOB}/stop",
        about="Stop what runs of a job, and drop what waits behind it.",
        handler=jobs.stop_job,
        looks=False,
        gives=Stopped,
    ),
    Endpoint(
        method="GET",
        path=f"{_JOB}/runs",
        about="What became of the runs of a job, the newest first.",
        handler=jobs.list_runs,
        looks=True,
        query=jobs.RunsQuery,
        gives=list[RunView],
    ),
)
