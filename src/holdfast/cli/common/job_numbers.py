"""The numbers of jobs, for whoever presses Tab."""

from holdfast.cli.common.gateway import api_of
from holdfast.cli.common.home import chosen_home
from holdfast.core.errors import HoldfastError
from holdfast.server.api.views.jobs import JobList

_LOOKED_AT = 500  # of the oldest on
_PATIENCE = 1.0  # seconds


def job_names() -> dict[str, str]:
    """What each job is called, by its number; none where no gateway runs."""
    try:
        api = api_of(chosen_home(), timeout=_PATIENCE)
        jobs = api.get("/jobs", JobList, {"limit": _LOOKED_AT}).jobs
    except HoldfastError:
        return {}
    return {str(job.id): job.name for job in jobs}
