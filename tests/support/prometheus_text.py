"""The text format of Prometheus, read as strictly as its own parser reads it."""

import math
import re
from collections import defaultdict

_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(
    rf"(?P<name>{_NAME})(?:\{{(?P<labels>{_LABEL}(?:,{_LABEL})*)\}})?"
    r" (?P<value>[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|Inf|NaN))"
)
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_PARTS = ("_bucket", "_sum", "_count")

Samples = dict[tuple[str, str], float]


class Exposition:
    """A page of metrics: `samples` by name and labels as they are written, `kinds` by family."""

    def __init__(self, text: str) -> None:
        """Raises where Prometheus would refuse the page, or where a family breaks its promises."""
        assert text.endswith("\n")
        self.samples: Samples = {}
        self.kinds: dict[str, str] = {}
        self._helped: set[str] = set()
        self._family = ""
        for line in text[:-1].split("\n"):
            self._take(line)
        for name, kind in self.kinds.items():
            if kind == "histogram":
                self._check_histogram(name)

    def labelled(self, name: str) -> list[tuple[dict[str, str], float]]:
        """The samples of that name with their labels unescaped."""
        return [
            (dict(_unescaped(labels)), value)
            for (each, labels), value in self.samples.items()
            if each == name
        ]

    def _take(self, line: str) -> None:
        if line.startswith("# HELP "):
            self._family = line.split(" ")[2]
            assert self._family not in self._helped, f"{self._family} comes in two groups"
            self._helped.add(self._family)
        elif line.startswith("# TYPE "):
            self._typed(*line.split(" ")[2:])
        else:
            self._sample(line)

    def _typed(self, name: str, kind: str) -> None:
        assert name == self._family and name not in self.kinds
        assert kind in {"counter", "gauge", "histogram"}
        assert (kind == "counter") == name.endswith("_total")
        self.kinds[name] = kind

    def _sample(self, line: str) -> None:
        found = _SAMPLE.fullmatch(line)
        assert found, line
        allowed = [self._family]
        if self.kinds[self._family] == "histogram":
            allowed = [self._family + part for part in _PARTS]
        assert found["name"] in allowed, line
        names = [name for name, _ in _unescaped(found["labels"] or "")]
        assert len(names) == len(set(names)), line
        key = found["name"], found["labels"] or ""
        assert key not in self.samples, f"{key} is there twice"
        self.samples[key] = float(found["value"])

    def _check_histogram(self, name: str) -> None:
        series: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for labels, value in self.labelled(f"{name}_bucket"):
            bound = float(labels.pop("le"))
            series[repr(labels)].append((bound, value))
        [buckets] = series.values()
        assert [bound for bound, _ in buckets] == sorted({bound for bound, _ in buckets})
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert math.isinf(buckets[-1][0])
        assert buckets[-1][1] == self.samples[f"{name}_count", ""]
        assert (f"{name}_sum", "") in self.samples


def _unescaped(labels: str) -> list[tuple[str, str]]:
    return [
        (name, re.sub(r"\\.", lambda found: _ESCAPED[found[0]], value))
        for name, value in _PAIR.findall(labels)
    ]
