"""A write and the row of the audit that tells of it, handed to the writer as one."""

from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from apsw import Cursor

from holdfast.core.people.audit import AuditEntry
from holdfast.store.sqlite.writes import audit

T = TypeVar("T")

Work = Callable[[Cursor], T]


class WriteQueue(Protocol):
    """Whatever takes a write and has it committed."""

    def submit(self, work: Work[T], /) -> Future[T]: ...


class AuditedWrites:
    """Hands every write on together with the row of one act, as a single one."""

    def __init__(self, submit: Callable[[Work[Any]], Future[Any]], entry: AuditEntry) -> None:
        self._submit = submit
        self._entry = entry

    def submit(self, work: Work[T], /) -> Future[T]:
        return self._submit(partial(audit.do_audited, work=work, act=self._entry))
