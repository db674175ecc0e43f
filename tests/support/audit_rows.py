"""Reads the audit of a gateway under test."""

import msgspec
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.people.audit import AuditFilter, AuditRow
from holdfast.core.ports.store_queries import ListAudit

ANN = "simulated:default:ann"
ALL_ROWS = AuditFilter(after=0)


async def audit_rows(harness: GatewayHarness, kind: str = "") -> list[AuditRow]:
    return await harness.store.read(
        ListAudit(where=msgspec.structs.replace(ALL_ROWS, kind=kind), limit=1000)
    )
