"""Chats for the screenshots, as bodies for `/sessions/import`: they show what the page can do."""

import json
import time
from typing import Any

_PLAN = """\
Of the **42 GB** in use, most is old logs:

| directory | size | oldest |
|:-------|-----:|:-------|
| `/var/log/journal` | 18.2 GB | March |
| `~/backups` | 11.4 GB | May |
| `~/.cache` | 6.1 GB | yesterday |

I would do two things:

1. Limit the journal to two weeks
2. Keep one backup per week after a month

```python
def keep(backup: Path, today: date) -> bool:
    \"\"\"Keep one per week after a month.\"\"\"
    day = date.fromisoformat(backup.stem)
    return (today - day).days < 31 or day.isoweekday() == 7  # Sundays
```

> Nothing is deleted yet. Shall I continue?
"""


def _call(id: str, name: str, **arguments: Any) -> dict[str, str]:
    return {"id": id, "name": name, "arguments": json.dumps(arguments)}


def _result(id: str, name: str, text: str, outcome: str = "ok") -> dict[str, str]:
    return {"type": "tool", "call_id": id, "name": name, "text": text, "outcome": outcome}


_DISK = """\
Filesystem      Size  Used Avail Use% Mounted on
/dev/vda1        48G   42G  3.8G  92% /"""

_MESSAGES: list[dict[str, Any]] = [
    {"type": "user", "text": "The disk of the small server is almost full. What uses the space?"},
    {
        "type": "assistant",
        "text": "I check the disk first, then the largest directories.",
        "reasoning": [{"text": "df first; then du on the usual suspects, largest first."}],
        "calls": [
            _call("c1", "terminal", command="df -h /"),
            _call("c2", "terminal", command="du -xh --max-depth=3 / 2>/dev/null | sort -rh | head"),
            _call("c3", "read", path="/etc/systemd/journald.conf"),
        ],
    },
    _result("c1", "terminal", _DISK),
    _result("c2", "terminal", "18.2G\t/var/log/journal\n11.4G\t/home/me/backups"),
    _result("c3", "read", "there is no such file in the workspace", "error"),
    {"type": "assistant", "text": _PLAN},
]

TITLES = [
    "What uses the disk space?",
    "Rename the photos by date",
    "A timer for the tide table",
    "Why does the build fail on Fridays",
    "Letter to the harbour office",
    "Compare the two heat pumps",
]


def import_body(title: str, messages: list[dict[str, Any]], at: float) -> str:
    """One session as the JSON Lines that `/sessions/import` reads."""
    rows = [
        {"seq": seq, "turn_id": None, "at": at + 2 * seq, "message": message}
        for seq, message in enumerate(messages, 1)
    ]
    return "\n".join(json.dumps(line) for line in ({"id": "s", "title": title}, *rows))


def import_bodies() -> list[str]:
    """Several chats. The one for the screenshot is the last, so that it is the newest."""
    now = time.time()
    small = [{"type": "user", "text": "hello"}, {"type": "assistant", "text": "Hello."}]
    others = [import_body(title, small, now - 9e4) for title in reversed(TITLES[1:])]
    return [*others, import_body(TITLES[0], _MESSAGES, now - 60)]
