"""A visitor: who asks over HTTP, by what they brought, and what they may do for it."""

from enum import StrEnum

import msgspec


class HttpRole(StrEnum):
    OWNER = "owner"  # sees and changes everything
    VIEWER = "viewer"  # sees everything and changes nothing


class HttpPrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """`id` and `name` are those of a viewer's token; the owner has neither."""

    role: HttpRole
    id: str = ""
    name: str = ""


OWNER = HttpPrincipal(role=HttpRole.OWNER)
