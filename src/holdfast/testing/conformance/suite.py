"""The suite: every check, in the order in which a platform is best written."""

from holdfast.testing.conformance import (
    attachments,
    connections,
    formatting,
    inbound,
    outbound,
    sources,
)
from holdfast.testing.conformance.harness import ConformanceCheck

CHECKS: tuple[ConformanceCheck, ...] = tuple(
    each
    for topic in (inbound, outbound, connections, sources, formatting, attachments)
    for each in vars(topic).values()
    if isinstance(each, ConformanceCheck)
)
