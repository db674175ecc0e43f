"""Having a session to oneself: for commands that change what was said in it."""

from collections.abc import Awaitable, Callable

from holdfast.core.ids import SessionId
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.barrier import LanePause
from holdfast.gateway.turns.lanes import Lanes

NOTHING_YET = "Nothing has been said in this conversation yet."
BUSY = (
    "This cannot be done while the agent works on something: wait for its answer, or /stop it "
    "first."
)

CarryOut = Callable[[CommandRequest, SessionId], Awaitable[None]]


def run_exclusively(
    services: Services, lanes: Lanes, request: CommandRequest, carry_out: CarryOut
) -> Awaitable[None]:
    """Carry a command out with no turn of its session under way, nor any that begins meanwhile:
    what is said from this instant on waits until it is done."""
    if request.session_id is None:
        return send_reply(services, request.row, NOTHING_YET)
    barrier = lanes.pause_lane(request.session_id)
    if barrier is None:
        return send_reply(services, request.row, BUSY)
    return _run_while_paused(barrier, request, request.session_id, carry_out)


async def _run_while_paused(
    pause: LanePause, request: CommandRequest, session_id: SessionId, carry_out: CarryOut
) -> None:
    try:
        await pause.wait_until_held()
        await carry_out(request, session_id)
    finally:
        pause.release()
