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


class _Slot:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class CallAssembly:
    """Owns the calls of one reply while their fragments come in."""

    __slots__ = ("_by_index", "_slots")

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, fragments: Iterable[CallFragment]) -> None:
        for fragment in fragments:
            slot = self._slot(fragment)
            if fragment.id:
                slot.id = fragment.id
            function = fragment.function
            if function is None:
                continue
            if function.name and not slot.name:
                slot.name = function.name
            if function.arguments:
                slot.arguments.append(_text(function.arguments))

    def begin(self, index: int, *, id: str, name: str) -> None:
        """A call whose id and name come before its arguments; said twice, it is the same one."""
        slot = self._by_index.get(index)
        if slot is None:
            slot = self._by_index[index] = _Slot()
            self._slots.append(slot)
        slot.id, slot.name = id or slot.id, name or slot.name

    def append(self, index: int, arguments: str) -> bool:
        """Whether there is a call of that index to which this belongs."""
        slot = self._by_index.get(index)
        if slot is not None:
            slot.arguments.append(arguments)
        return slot is not None

    def settle(self, index: int, arguments: str) -> None:
        """Its arguments as a whole, which beat the pieces that came before."""
        slot = self._by_index.get(index)
        if slot is not None:
            slot.arguments = [arguments]

    def finish(self, *, taken: Collection[str], prefix: Callable[[], str]) -> tuple[ToolCall, ...]:
        """The calls in the order in which they began.

        An id that is missing, or that an earlier call has (`taken`), is replaced by one made
        from `prefix` and the call's place: the same reply gives the same ids.
        """
        used = set(taken)
        calls = []
        for place, slot in enumerate(self._slots):
            call_id = slot.id
            if not call_id or call_id in used:
                call_id = _free_id(f"{prefix()}_{place}", used)
            used.add(call_id)
            arguments = "".join(slot.arguments).strip() or "{}"
            calls.append(ToolCall(id=CallId(call_id), name=slot.name, arguments=arguments))
        return tuple(calls)

    def _slot(self, fragment: CallFragment) -> _Slot:
        index = fragment.index
        slot = self._last() if index is None else self._by_index.get(index)
        if slot is None or _is_another(fragment, slot):
            slot = _Slot()
            self._slots.append(slot)
        if index is not None:
            self._by_index[index] = slot
        return slot

    def _last(self) -> _Slot | None:
        return self._slots[-1] if self._slots else None


def _is_another(fragment: CallFragment, slot: _Slot) -> bool:
    """Servers that give every call the index 0, or none, tell them apart by id or name alone."""
    if fragment.id and slot.id:
        return fragment.id != slot.id
    named = fragment.function is not None and bool(fragment.function.name)
    return fragment.index is None and named and bool(slot.name)


def _text(arguments: str | dict[str, Any]) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _free_id(wish: str, used: Collection[str]) -> str:
    candidate, n = wish, 1
    while candidate in used:
        candidate, n = f"{wish}_{n}", n + 1
    return candidate
