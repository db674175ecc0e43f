"""What is kept of who did what, in the table of `/api/v1`."""

from holdfast.server.api.endpoint import Endpoint, Media
from holdfast.server.api.v1 import audit
from holdfast.server.api.views.audit import AuditPage, AuditVerificationView

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/audit",
        summary="Who asked, who allowed it, what was done and with what effect, the newest first.",
        handler=audit.list_audit,
        read_only=True,
        query=audit.AuditQuery,
        response_type=AuditPage,
    ),
    Endpoint(
        method="GET",
        path="/audit/export",
        summary="The audit as a file, the oldest row first. That it was taken is a row of it.",
        handler=audit.export_audit,
        read_only=False,
        query=audit.AuditExportQuery,
        response_type=str,
        response_media=(Media.LINES, Media.CSV),
    ),
    Endpoint(
        method="GET",
        path="/audit/verify",
        summary="Whether the rows of the audit are as they were written; every one is read.",
        handler=audit.verify_audit,
        read_only=True,
        response_type=AuditVerificationView,
    ),
)
