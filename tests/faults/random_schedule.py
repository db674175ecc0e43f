"""Random schedules of messages, vendor faults and kills of the gateway."""

import asyncio
import os
import random

from tests.faults.conservation import (
    ConservationError,
    StoreContents,
    effect_message,
    plain_message,
)
from tests.faults.crash_point_groups import RECOVERY_POINTS, STREAM_POINTS, TURN_PASSES
from tests.support.process_harness import ProcessHarness

from holdfast.core.messages.inbox import InboxState
from holdfast.testing.simulated.events import Faults

CHAINS = 4  # of each kind of vendor
RUNS_PER_CHAIN = 25  # 300 schedules in all
SOAK_TESTS = 6
SOAK_CHAINS = 30  # of each soak test: 5,400 schedules in all
SOAK_RUNS_PER_CHAIN = 30
IDEMPOTENT = "--idempotent-send"
EDIT = "--edit"
VENDORS = {"marked": (), "idempotent": (IDEMPOTENT,), "edited": (EDIT, "--edit-interval", "0.02")}

CHATS = ("home", "work", "garden")
GIVEN_UP = "interrupted 3 times"
# Points that are reached without a person or a signal.
POINTS = (*TURN_PASSES, *RECOVERY_POINTS, *STREAM_POINTS)
STREAMED = frozenset(STREAM_POINTS)  # only where a vendor lets bots edit
TIMES = (1, 1, 1, 2, 3, 5)


def chosen_seed() -> int:
    chosen = os.environ.get("HOLDFAST_SEED")
    return int(chosen) if chosen else random.randrange(10**9)


def slow_message(name: str) -> str:
    """A message whose command takes a moment, so that a kill may find it running."""
    command = f"sleep 0.15; echo {name} >> effects.log"
    return f'do {name} [tool terminal {{"command": "{command}"}}] [then] [text answer to {name}]'


def streamed_message(name: str) -> str:
    """A message whose answer is streamed, so that a kill may find it incomplete."""
    return f"tell {name} [delay 0.02][split 4][text answer to {name}]"


def random_faults(rng: random.Random) -> Faults:
    """Vendor faults that occur now and then; none of them loses a message."""
    return Faults(
        duplicates=rng.choice((0, 0, 2)),
        delay=rng.choice((0.0, 0.0, 0.05)),
        reorders=rng.choice((0, 0, 1)),
        floods=rng.choice((0, 0, 1)),
        retry_after=0.05,
        lost_receipts=rng.choice((0, 0, 0, 1)),
        lost_messages=rng.choice((0, 0, 0, 1)),
        rejected_edits=rng.choice((0, 0, 1)),
        lost_edits=rng.choice((0, 0, 1)),
    )


def check_failed_messages(contents: StoreContents) -> None:
    """F7: only a turn that was interrupted three times may end without its answer."""
    failed = [row for row in contents.inbox.values() if row.state is InboxState.FAILED]
    violations = [f"{row.text!r}: {row.reason}" for row in failed if GIVEN_UP not in row.reason]
    if violations:
        raise ConservationError("\n".join(violations))


class KillSchedule:
    """Draws the random choices of one harness, and records each gateway run for failure reports."""

    def __init__(
        self,
        process_harness: ProcessHarness,
        rng: random.Random,
        *,
        longest_wait: float,
        edits: bool,
    ) -> None:
        self._harness = process_harness
        self._rng = rng
        self._longest_wait = longest_wait
        self._points = [point for point in POINTS if edits or point not in STREAMED]
        self._message_makers = (
            plain_message,
            effect_message,
            slow_message,
            *((streamed_message, streamed_message) if edits else ()),
        )
        self._messages_sent = 0
        self.runs: list[str] = []

    async def run_and_kill(self) -> None:
        """One run of the gateway: it is started, gets messages and is killed."""
        crash_at = f"{self._rng.choice(self._points)}:{self._rng.choice(TIMES)}"
        send_early = self._rng.random() < 0.5  # sent while no gateway runs
        wait = self._rng.uniform(0.0, self._longest_wait)
        await self._harness.people.set_faults(random_faults(self._rng))
        await self._send_messages(send_early)
        await self._harness.launch(crash_at)
        if await self._harness.wait_until_ready():
            await self._send_messages(not send_early)
        self.runs.append(f"{crash_at} {await self._wait_for_end(wait)}")

    async def _send_messages(self, now: bool) -> None:
        for _ in range(self._rng.randint(1, 2) if now else 0):
            self._messages_sent += 1
            make = self._rng.choice(self._message_makers)
            await self._harness.people.say(
                make(f"n{self._messages_sent}"), chat=self._rng.choice(CHATS)
            )

    async def _wait_for_end(self, wait: float) -> str:
        """Wait for the crash; a gateway that does not reach its point is killed from outside."""
        try:
            async with asyncio.timeout(wait):
                await self._harness.wait_for_crash()
            return "reached"
        except TimeoutError:
            await self._harness.kill()
            return f"killed after {wait:.2f} s"
