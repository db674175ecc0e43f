"""Reads the audit of a gateway under test."""

import msgspec
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.people.audit import (
    AuditFilter,
    AuditRow,
)

ANN = "simulated:default:ann"


ALL = AuditFilter(after=0)


async def rows(harness: GatewayHarness, kind: str = "") -> list[AuditRow]:
    return await harness.store.audit(msgspec.structs.replace(ALL, kind=kind), limit=1000)
