"""A write and the row of the audit that tells of it, handed to the writer as one."""

from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from apsw import Cursor

from holdfast.core.people.audit import Act
from holdfast.store.sqlite.writes import audit

T = TypeVar("T")

Work = Callable[[Cursor], T]


class Submits(Protocol):
    """Whatever takes a write and has it committed."""

    def submit(self, work: Work[T], /) -> Future[T]: ...


class Acting:
    """Hands every write on together with the row of one act, as a single one."""

    def __init__(self, submit: Callable[[Work[Any]], Future[Any]], act: Act) -> None:
        self._submit = submit
        self._act = act

    def submit(self, work: Work[T], /) -> Future[T]:
        return self._submit(partial(audit.acted, work=work, act=self._act))
