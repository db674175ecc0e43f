"""The table of `/api/v1`: it mounts the endpoints, and the OpenAPI document is made of it."""

from holdfast.server.api.endpoint import Endpoint
from holdfast.server.api.v1 import (
    configuration_tables,
    gateway,
    people,
    post,
    records,
    sessions_tables,
    work,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *gateway.ENDPOINTS,
    *configuration_tables.ENDPOINTS,
    *sessions_tables.ENDPOINTS,
    *work.ENDPOINTS,
    *post.ENDPOINTS,
    *people.ENDPOINTS,
    *records.ENDPOINTS,
)
