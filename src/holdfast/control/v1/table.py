"""The table of `/api/v1`: it mounts the endpoints, and the OpenAPI document is made of it."""

from holdfast.control.v1.endpoint import Endpoint
from holdfast.control.v1.tables import configuration, gateway, people, post, records, sessions, work

ENDPOINTS: tuple[Endpoint, ...] = (
    *gateway.ENDPOINTS,
    *configuration.ENDPOINTS,
    *sessions.ENDPOINTS,
    *work.ENDPOINTS,
    *post.ENDPOINTS,
    *people.ENDPOINTS,
    *records.ENDPOINTS,
)
