"""The text format that Prometheus reads: families of samples, with names and labels as it wants."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.core.ops.histogram import BUCKET_BOUNDS, HistogramSnapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


def single_sample(name: str, text: str, value: float) -> Iterator[str]:
    yield from _header(name, text)
    yield f"{name} {value}"


def family(name: str, text: str, label: str, values: Mapping[Any, float]) -> Iterator[str]:
    """One sample for each value of one label."""
    yield from samples(name, text, (({label: str(key)}, each) for key, each in values.items()))


def samples(name: str, text: str, values: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield from _header(name, text)
    for labels, value in values:
        yield f"{name}{_label_text(labels)} {value}"


def histogram(name: str, text: str, durations: HistogramSnapshot) -> Iterator[str]:
    yield from _header(name, text, kind="histogram")
    for bound, count in zip(BUCKET_BOUNDS, durations.cumulative_counts, strict=True):
        yield f'{name}_bucket{{le="{bound}"}} {count}'
    yield f'{name}_bucket{{le="+Inf"}} {durations.count}'
    yield f"{name}_sum {durations.total}"
    yield f"{name}_count {durations.count}"


def _header(name: str, text: str, *, kind: str = "") -> Iterator[str]:
    """A counter is known by its name, as everybody who writes queries expects."""
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind or ('counter' if name.endswith('_total') else 'gauge')}"


def _label_text(labels: Labels) -> str:
    return (
        "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items()) + "}"
    )


def _escape_label(value: str) -> str:
    """What a vendor or a person called something may hold anything: one bad label, and all the
    figures of the page would be refused."""
    text = value.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
