"""Changes of a command whose answer depends on what comes of them: their commit words it."""

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.jobs.job import Job, JobId, NewJob
from holdfast.core.messages.inbox import Inbound
from holdfast.core.people.memory import Edit, Edited
from holdfast.core.sessions.reset import Opening

# Called within the commit, on its thread and perhaps more than once: `told` has only its argument
# to go by, and does nothing but say.


class WordedEdits(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a notebook, one after the other."""

    edits: tuple[Edit, ...]
    told: Callable[[Sequence[Edited]], str]


class WordedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be; None: its person has `most` of them already."""

    new: NewJob
    most: int
    told: Callable[[Job | None], str]


class WordedSkip(msgspec.Struct, frozen=True, kw_only=True):
    """What waits of a job is never begun; told is how many that were."""

    job_id: JobId
    why: str
    told: Callable[[int], str]


class Opens(msgspec.Struct, frozen=True, kw_only=True):
    """A chat in which nothing was said yet, or whose session cannot go on, gets one."""

    route: SessionKey
    principal: PrincipalId | None
    opening: Opening | None


class SentOff(msgspec.Struct, frozen=True, kw_only=True):
    """A child that works beside the conversation from now on; `opens`: its parent is opened by
    the same commit, unless another was quicker, which is its parent then."""

    inbound: Inbound
    route: SessionKey
    principal: PrincipalId
    opens: Opens | None = None
