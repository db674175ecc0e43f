"""What can be asked about the work that waits and goes on besides turns."""

import apsw

from holdfast.core.ops.workload import Workload

# The rows of runners are those that live: to look at all that ever ran would take long.
_WORKLOAD_QUERY = """SELECT
    (SELECT count(*) FROM approvals INDEXED BY approvals_pending WHERE state = 'pending'),
    (SELECT count(*) FROM runners r JOIN processes p ON p.session_id = r.session_id
        WHERE p.ended_at IS NULL),
    (SELECT count(*) FROM jobs),
    (SELECT count(*) FROM jobs WHERE paused),
    (SELECT count(*) FROM job_runs INDEXED BY job_runs_waiting
        WHERE inbox_id IS NULL AND skipped IS NULL)"""


def workload(cursor: apsw.Cursor) -> Workload:
    for approvals, processes, jobs, paused, waiting in cursor.execute(_WORKLOAD_QUERY):
        return Workload(
            approvals=approvals,
            processes=processes,
            jobs=jobs,
            paused_jobs=paused,
            waiting_runs=waiting,
        )
    raise AssertionError("a row of counts is always there")
