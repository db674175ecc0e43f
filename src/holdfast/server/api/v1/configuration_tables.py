"""The configuration in the table of `/api/v1`: its keys, its changes, its history."""

from holdfast.core.config.configuration import Reloaded
from holdfast.server.api.endpoint import Endpoint
from holdfast.server.api.v1 import configuration
from holdfast.server.api.views.configuration_views import (
    ConfigChange,
    ConfigChanged,
    ConfigurationList,
    ConfigurationView,
    ConfigView,
    RollbackAsked,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/config",
        about="Every key: its value, who set it, and when a change of it holds.",
        handler=configuration.read_config,
        looks=True,
        gives=ConfigView,
    ),
    Endpoint(
        method="PATCH",
        path="/config",
        about="Set keys of holdfast.toml, or take them out; checked first, then taken over.",
        handler=configuration.change_config,
        looks=False,
        takes=ConfigChange,
        gives=ConfigChanged,
        refuses=(409, 422),
    ),
    Endpoint(
        method="POST",
        path="/config/reload",
        about="Read the file again and put it into force; what cannot be swapped waits.",
        handler=configuration.reload_config,
        looks=False,
        gives=Reloaded,
        refuses=(422,),
    ),
    Endpoint(
        method="GET",
        path="/config/history",
        about="The configurations that were in force, the newest first.",
        handler=configuration.list_history,
        looks=True,
        query=configuration.HistoryQuery,
        gives=ConfigurationList,
    ),
    Endpoint(
        method="GET",
        path="/config/history/{number}",
        about="One of them: its text, and what differs from the one before it or from another.",
        handler=configuration.read_kept,
        looks=True,
        query=configuration.AgainstQuery,
        gives=ConfigurationView,
        refuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/config/rollback",
        about="Put an earlier one back: checked by the rules of today, and with a new number.",
        handler=configuration.roll_back,
        looks=False,
        takes=RollbackAsked,
        gives=ConfigChanged,
        refuses=(404, 409, 422),
    ),
)
