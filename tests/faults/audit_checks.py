"""The law of the audit: every tool step that ended has exactly one row, and no row is without."""

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
            # Of one that was deleted the steps are gone, and what was done in it is not.
            " AND session NOT IN (SELECT session FROM audit WHERE kind = 'session.deleted')"
        )
    )
    for key in sorted(steps.keys() | rows.keys()):
        if steps[key] != rows[key]:
            turn, call = key
            yield f"call {call} of {turn} ended {steps[key]} times, with {rows[key]} audit rows"
