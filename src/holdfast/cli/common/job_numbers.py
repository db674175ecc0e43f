"""The numbers of jobs, for whoever presses Tab."""

from holdfast.cli.common.gateway import api_client_for
from holdfast.cli.common.home import chosen_home
from holdfast.core.errors import HoldfastError
from holdfast.server.api.views.jobs import JobList

_JOB_LIMIT = 500  # of the oldest on
_JOB_COMPLETION_TIMEOUT = 1.0  # seconds


def fetch_job_names() -> dict[str, str]:
    """What each job is called, by its number; none where no gateway runs."""
    try:
        api = api_client_for(chosen_home(), timeout=_JOB_COMPLETION_TIMEOUT)
        jobs = api.get("/jobs", JobList, {"limit": _JOB_LIMIT}).jobs
    except HoldfastError:
        return {}
    return {str(job.id): job.name for job in jobs}
