"""The invariant of the audit: every ended tool step has exactly one row, and every row a step."""

from collections import Counter
from collections.abc import Iterator

import apsw


def audit_violations(db: apsw.Cursor) -> Iterator[str]:
    """A sentence for each call whose steps and rows do not agree."""
    steps = Counter(
        (str(turn), str(call))
        for turn, call in db.execute(
            "SELECT turn_id, call_id FROM steps WHERE kind = 'tool' AND finished_at IS NOT NULL"
        )
    )
    rows = Counter(
        (str(turn), str(call))
        for turn, call in db.execute(
            "SELECT turn, json_extract(facts, '$.call') FROM audit WHERE kind = 'tool.call'"
            # The steps of a deleted session are gone, its audit rows are not.
            " AND session NOT IN (SELECT session FROM audit WHERE kind = 'session.deleted')"
        )
    )
    for key in sorted(steps.keys() | rows.keys()):
        if steps[key] != rows[key]:
            turn, call = key
            yield f"call {call} of {turn} ended {steps[key]} times, with {rows[key]} audit rows"
