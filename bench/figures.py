"""The figures as they come in, and the rows of the table that they make."""

from plan import SLOW_MODEL_SECONDS, Plan
from table import BenchRow, Limit


class Figures:
    """Owns every figure measured so far, by its name and its subject's."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._figures: dict[str, dict[str, float]] = {}

    def note(self, figure: str, subject: str, value: float) -> None:
        self._figures.setdefault(figure, {})[subject] = value

    def rows(self) -> list[BenchRow]:
        waiting = f"{self._plan.waiting} sessions on a {SLOW_MODEL_SECONDS:g} s model"
        at_most, ratio = Limit.AT_MOST, Limit.RATIO_AT_MOST
        rows = [
            self._row("64 sessions: CPU per turn", "ms", "cpu 64", ratio, 3, aim="2 ms"),
            self._row(
                "64 sessions: turns", "1/s", "turns 64", Limit.RATIO_AT_LEAST, 1 / 3, aim="400"
            ),
            self._row("64 sessions: latency, median", "ms", "p50 64"),
            self._row("64 sessions: latency, 99 %", "ms", "p99 64"),
            self._row("1 session: CPU per turn", "ms", "cpu 1", ratio, 3),
            self._row("1 session: turns", "1/s", "turns 1"),
            self._row("1 session: latency, median", "ms", "p50 1"),
            self._row(waiting, "s", "slow", ratio, 1.4),
            *self._probe_rows(),
            *self._known_rows(),
            self._row("start to ready", "s", "start", at_most, 0.8),
            self._row("  CPU of that", "s", "start cpu"),
            *self._stop_rows(),
            *self._status_rows(),
            *self._platform_rows(),
            *self._text_rows(),
            self._row("idle, resident", "MB", "idle", at_most, 60),
            self._row("one more cached agent", "kB", "agent", at_most, 50),
            self._row('the request for "hi"', "bytes", "request", at_most, 8000),
            self._row("holdfast --version, CPU", "ms", "version", at_most, 80),
        ]
        return rows

    def _known_rows(self) -> list[BenchRow]:
        if "memory" not in self._figures:
            return []
        cached = Limit.CACHED_AT_MOST
        return [
            self._row(
                f"{self._plan.known:,} known: CPU of a new session's turn",
                "ms",
                "new session",
                cached,
                1.5,
            ),
            self._row("  of one in the store alone", "ms", "stored session", cached, 1.5),
            self._row(
                f"  resident after {self._plan.visited:,} visits",
                "MB",
                "memory",
                Limit.BEFORE_AT_MOST,
                1.05,
            ),
        ]

    def _stop_rows(self) -> list[BenchRow]:
        if "stop" not in self._figures:
            return []
        plan, at_most = self._plan, Limit.AT_MOST
        restarted = f"restart to ready, {plan.known:,} sessions in the store"
        restarted_turns = f"  with {plan.restarted_turns} running turns: added to the"
        return [
            self._row("stop, idle", "s", "stop", at_most, 0.3),
            self._row(
                f"  with {plan.interrupted_turns} running turns",
                "s",
                "stop interrupted",
                at_most,
                2,
            ),
            self._row(restarted, "s", "restart", at_most, 1),
            self._row(f"{restarted_turns} median", "s", "restart added median"),
            self._row(f"{restarted_turns} longest", "s", "restart added most", at_most, 2),
        ]

    def _platform_rows(self) -> list[BenchRow]:
        if "telegram" not in self._figures:
            return []
        limit = Limit.SIMULATED_AT_MOST
        return [
            self._row("a turn over Telegram, CPU", "ms", "telegram", limit, 1.5),
            self._row(
                "start to ready with five platforms", "s", "five platforms", Limit.AT_MOST, 1.5
            ),
            self._row("  until all five are connected", "s", "five connected"),
        ]

    def _status_rows(self) -> list[BenchRow]:
        states = [name for name in self._figures if name.startswith("status ")]
        return [
            self._row(f"status while {name.split()[1]}, longest", "ms", name, Limit.AT_MOST, 100)
            for name in states
        ]

    def _text_rows(self) -> list[BenchRow]:
        targets = {"1 kB": 2.5, "20 kB": 2.5, "no marks": 1.0}
        return [
            self._row(f"a reply of {text}", "ms", f"text {text}", Limit.PARSER_AT_MOST, target)
            for text, target in targets.items()
        ]

    def _probe_rows(self) -> list[BenchRow]:
        rows = []
        for name in self._figures:
            if name.startswith("probe "):
                limit = Limit.AT_MOST if name.endswith("wait") else Limit.NONE
                title = f"  {name.removeprefix('probe ')}"
                rows.append(self._row(title, "ms", name, limit, 50))
        return rows

    def _row(
        self,
        name: str,
        unit: str,
        figure: str,
        limit: Limit = Limit.NONE,
        target: float = 0.0,
        *,
        aim: str = "",
    ) -> BenchRow:
        found = self._figures[figure]
        return BenchRow(
            name=name,
            unit=unit,
            gateway=found.get("gateway"),
            floor=found.get("floor"),
            limit=limit,
            target=target,
            aim=aim,
        )
