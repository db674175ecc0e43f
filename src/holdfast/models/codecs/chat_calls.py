"""Tool calls that come in pieces, several at a time, put together again."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.message import ToolCall


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallFragment(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _PartialCall:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class CallAssembler:
    """Owns the calls of one reply while their fragments come in."""

    __slots__ = ("_by_index", "_partial_calls")

    def __init__(self) -> None:
        self._partial_calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}

    def __len__(self) -> int:
        return len(self._partial_calls)

    def add(self, fragments: Iterable[CallFragment]) -> None:
        for fragment in fragments:
            slot = self._call_for(fragment)
            if fragment.id:
                slot.id = fragment.id
            function = fragment.function
            if function is None:
                continue
            if function.name and not slot.name:
                slot.name = function.name
            if function.arguments:
                slot.arguments.append(_arguments_text(function.arguments))

    def begin(self, index: int, *, id: str, name: str) -> None:
        """A call whose id and name come before its arguments; said twice, it is the same one."""
        slot = self._by_index.get(index)
        if slot is None:
            slot = self._by_index[index] = _PartialCall()
            self._partial_calls.append(slot)
        slot.id, slot.name = id or slot.id, name or slot.name

    def append(self, index: int, arguments: str) -> bool:
        """Whether there is a call of that index to which this belongs."""
        slot = self._by_index.get(index)
        if slot is not None:
            slot.arguments.append(arguments)
        return slot is not None

    def set_arguments(self, index: int, arguments: str) -> None:
        """Its arguments as a whole, which beat the pieces that came before."""
        slot = self._by_index.get(index)
        if slot is not None:
            slot.arguments = [arguments]

    def finish(
        self, *, used_ids: Collection[str], prefix: Callable[[], str]
    ) -> tuple[ToolCall, ...]:
        """The calls in the order in which they began.

        An id that is missing, or that an earlier call has (`taken`), is replaced by one made
        from `prefix` and the call's place: the same reply gives the same ids.
        """
        used = set(used_ids)
        calls = []
        for place, slot in enumerate(self._partial_calls):
            call_id = slot.id
            if not call_id or call_id in used:
                call_id = _free_id(f"{prefix()}_{place}", used)
            used.add(call_id)
            arguments = "".join(slot.arguments).strip() or "{}"
            calls.append(ToolCall(id=CallId(call_id), name=slot.name, arguments=arguments))
        return tuple(calls)

    def _call_for(self, fragment: CallFragment) -> _PartialCall:
        index = fragment.index
        slot = self._last() if index is None else self._by_index.get(index)
        if slot is None or _is_new_call(fragment, slot):
            slot = _PartialCall()
            self._partial_calls.append(slot)
        if index is not None:
            self._by_index[index] = slot
        return slot

    def _last(self) -> _PartialCall | None:
        return self._partial_calls[-1] if self._partial_calls else None


def _is_new_call(fragment: CallFragment, slot: _PartialCall) -> bool:
    """Servers that give every call the index 0, or none, tell them apart by id or name alone."""
    if fragment.id and slot.id:
        return fragment.id != slot.id
    named = fragment.function is not None and bool(fragment.function.name)
    return fragment.index is None and named and bool(slot.name)


def _arguments_text(arguments: str | dict[str, Any]) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _free_id(base: str, used: Collection[str]) -> str:
    candidate, n = base, 1
    while candidate in used:
        candidate, n = f"{base}_{n}", n + 1
    return candidate
