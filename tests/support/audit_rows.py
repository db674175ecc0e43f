"""Reads the audit of a gateway under test."""

import msgspec
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.people.audit import AuditFilter, AuditRow

ANN = "simulated:default:ann"
ALL_ROWS = AuditFilter(after=0)


async def audit_rows(harness: GatewayHarness, kind: str = "") -> list[AuditRow]:
    return await harness.store.audit(msgspec.structs.replace(ALL_ROWS, kind=kind), limit=1000)
