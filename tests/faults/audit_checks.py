"""The invariant of the audit: every ended tool step has exactly one row, and every row a step."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

Row = Mapping[str, Any]


def audit_violations(steps: Iterable[Row], audit: Sequence[Row]) -> Iterator[str]:
    """A sentence for each call whose steps and rows do not agree."""
    ended = Counter(
        (str(step["turn_id"]), str(step["call_id"]))
        for step in steps
        if step["kind"] == "tool" and step["finished_at"] is not None
    )
    # The steps of a deleted session are gone, its audit rows are not.
    deleted = {row["session"] for row in audit if row["kind"] == "session.deleted"}
    rows = Counter(
        (str(row["turn"]), str(msgspec.json.decode(row["facts"])["call"]))
        for row in audit
        if row["kind"] == "tool.call" and row["session"] not in deleted
    )
    for key in sorted(ended.keys() | rows.keys()):
        if ended[key] != rows[key]:
            turn, call = key
            yield f"call {call} of {turn} ended {ended[key]} times, with {rows[key]} audit rows"
