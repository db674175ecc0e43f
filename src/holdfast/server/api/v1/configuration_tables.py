"""The configuration in the table of `/api/v1`: its keys, its changes, its history."""

from holdfast.core.config.configuration import ReloadResult
from holdfast.server.api.endpoint import Endpoint
from holdfast.server.api.v1 import configuration
from holdfast.server.api.views.configuration_views import (
    ConfigChange,
    ConfigChangeResult,
    ConfigVersionDetail,
    ConfigVersionList,
    ConfigView,
    RollbackParams,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/config",
        summary="Every key: its value, who set it, and when a change of it holds.",
        handler=configuration.read_config,
        read_only=True,
        response_type=ConfigView,
    ),
    Endpoint(
        method="PATCH",
        path="/config",
        summary="Set keys of holdfast.toml, or take them out; checked first, then taken over.",
        handler=configuration.change_config,
        read_only=False,
        request_type=ConfigChange,
        response_type=ConfigChangeResult,
        error_statuses=(409, 422),
    ),
    Endpoint(
        method="POST",
        path="/config/reload",
        summary="Read the file again and put it into force; what cannot be swapped waits.",
        handler=configuration.reload_config,
        read_only=False,
        response_type=ReloadResult,
        error_statuses=(422,),
    ),
    Endpoint(
        method="GET",
        path="/config/history",
        summary="The configurations that were in force, the newest first.",
        handler=configuration.list_config_history,
        read_only=True,
        query=configuration.ConfigHistoryQuery,
        response_type=ConfigVersionList,
    ),
    Endpoint(
        method="GET",
        path="/config/history/{number}",
        summary="One of them: its text, and what differs from the one before it or from another.",
        handler=configuration.read_config_version,
        read_only=True,
        query=configuration.ConfigDiffQuery,
        response_type=ConfigVersionDetail,
        error_statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/config/rollback",
        summary="Put an earlier one back: checked by the rules of today, and with a new number.",
        handler=configuration.roll_back_config,
        read_only=False,
        request_type=RollbackParams,
        response_type=ConfigChangeResult,
        error_statuses=(404, 409, 422),
    ),
)
