"""Changes of a command whose answer depends on what comes of them: their commit words it."""

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.jobs.job import Job, JobId, NewJob
from holdfast.core.messages.inbox import Inbound
from holdfast.core.people.memory import NoteEdit, NoteEditResult
from holdfast.core.sessions.reset import SessionReset

# Called within the commit, on its thread and perhaps more than once: `told` has only its argument
# to go by, and does nothing but say.


class NoteEditsWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a notebook, one after the other."""

    edits: tuple[NoteEdit, ...]
    reply: Callable[[Sequence[NoteEditResult]], str]


class NewJobWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be; None: its person has `most` of them already."""

    new: NewJob
    limit: int
    reply: Callable[[Job | None], str]


class SkipRunsWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """What waits of a job is never begun; told is how many that were."""

    job_id: JobId
    why: str
    reply: Callable[[int], str]


class SessionOpening(msgspec.Struct, frozen=True, kw_only=True):
    """A chat in which nothing was said yet, or whose session cannot go on, gets one."""

    route: SessionKey
    principal: PrincipalId | None
    reset: SessionReset | None


class BackgroundStart(msgspec.Struct, frozen=True, kw_only=True):
    """A child that works beside the conversation from now on; `opens`: its parent is opened by
    the same commit, unless another was quicker, which is its parent then."""

    inbound: Inbound
    route: SessionKey
    principal: PrincipalId
    open_parent: SessionOpening | None = None
