"""What is kept of who did what, in the table of `/api/v1`."""

from holdfast.server.api.endpoint import Endpoint, Media
from holdfast.server.api.v1 import audit
from holdfast.server.api.views.audit import AuditPage, AuditVerified

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/audit",
        about="Who asked, who allowed it, what was done and with what effect, the newest first.",
        handler=audit.list_audit,
        looks=True,
        query=audit.AuditQuery,
        gives=AuditPage,
    ),
    Endpoint(
        method="GET",
        path="/audit/export",
        about="The audit as a file, the oldest row first. That it was taken is a row of it.",
        handler=audit.export_audit,
        looks=False,
        query=audit.ExportQuery,
        gives=str,
        gives_media=(Media.LINES, Media.CSV),
    ),
    Endpoint(
        method="GET",
        path="/audit/verify",
        about="Whether the rows of the audit are as they were written; every one is read.",
        handler=audit.verify_audit,
        looks=True,
        gives=AuditVerified,
    ),
)
