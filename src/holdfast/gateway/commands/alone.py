"""Having a session to oneself: for commands that change what was said in it."""

from collections.abc import Awaitable, Callable

from holdfast.core.ids import SessionId
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House
from holdfast.gateway.turns.barrier import Barrier
from holdfast.gateway.turns.lanes import Lanes

NOTHING_YET = "Nothing has been said in this conversation yet."
BUSY = (
    "This cannot be done while the agent works on something: wait for its answer, or /stop it "
    "first."
)

CarryOut = Callable[[Asked, SessionId], Awaitable[None]]


def alone(house: House, lanes: Lanes, asked: Asked, carry_out: CarryOut) -> Awaitable[None]:
    """Carry a command out with no turn of its session under way, nor any that begins meanwhile:
    what is said from this instant on waits until it is done."""
    if asked.session_id is None:
        return answer(house, asked.row, NOTHING_YET)
    barrier = lanes.shut(asked.session_id)
    if barrier is None:
        return answer(house, asked.row, BUSY)
    return _behind(barrier, asked, asked.session_id, carry_out)


async def _behind(
    barrier: Barrier, asked: Asked, session_id: SessionId, carry_out: CarryOut
) -> None:
    try:
        await barrier.rests()
        await carry_out(asked, session_id)
    finally:
        barrier.lift()
