"""The gateway itself in the table of `/api/v1`: how it is, its accounts, its log, its end."""

from typing import Any

from holdfast.server.api import describing
from holdfast.server.api.endpoint import Endpoint, Media
from holdfast.server.api.v1 import (
    accounts,
    charts,
    departing,
    logs,
    overall,
    restarts,
    streams,
    whoami,
)
from holdfast.server.api.v1.chart_views import Chart
from holdfast.server.api.v1.log_views import LogPage
from holdfast.server.api.v1.whoami import Whoami
from holdfast.server.api.views.account_views import AccountList, AccountView
from holdfast.server.api.views.departing_views import Departing, RestartAsked, StopAsked
from holdfast.server.api.views.overall_views import CommandView, Status, StoreView
from holdfast.server.api.views.search_views import Found, SearchView

_SESSION = "/sessions/{id}"
_ACCOUNT = "/platforms/{name}/{account}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/status",
        about="How the gateway is, and which model answers.",
        handler=overall.status,
        looks=True,
        gives=Status,
    ),
    Endpoint(
        method="GET",
        path="/whoami",
        about="As whom this is asked, and in which role.",
        handler=whoami.whoami,
        looks=True,
        gives=Whoami,
    ),
    Endpoint(
        method="GET",
        path="/chart",
        about="What it did, and how quickly, over the last hour or day.",
        handler=charts.chart,
        looks=True,
        query=charts.ChartQuery,
        gives=Chart,
    ),
    Endpoint(
        method="GET",
        path="/platforms",
        about="Every account of every platform: whether it is connected, and if not, why.",
        handler=accounts.list_accounts,
        looks=True,
        gives=AccountList,
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/pause",
        about="Let an account go, until somebody resumes it. No turn is cut, and nothing is lost.",
        handler=accounts.pause_account,
        looks=False,
        gives=AccountView,
        refuses=(404, 409),
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/resume",
        about="Connect an account that was paused or refused, or that waits for its next try.",
        handler=accounts.resume_account,
        looks=False,
        gives=AccountView,
        refuses=(404,),
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/check",
        about="Have a round trip to an account now, or try to connect it, and say what came of it.",
        handler=accounts.check_account,
        looks=False,
        gives=AccountView,
        refuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/restart",
        about="Restart the gateway; what runs goes on afterwards. Refused where it could not.",
        handler=departing.restart_gateway,
        looks=False,
        takes=RestartAsked,
        gives=Departing,
        statuses=(202,),
        refuses=(409,),
    ),
    Endpoint(
        method="GET",
        path="/restarts",
        about="How processes of this gateway ended, and what became of what ran; the newest first.",
        handler=restarts.list_restarts,
        looks=True,
        query=restarts.RestartsQuery,
        gives=restarts.RestartList,
    ),
    Endpoint(
        method="POST",
        path="/stop",
        about="Stop the gateway; it stays down until somebody starts it.",
        handler=departing.stop_gateway,
        looks=False,
        takes=StopAsked,
        gives=Departing,
        statuses=(202,),
    ),
    Endpoint(
        method="GET",
        path="/commands",
        about="What can be asked of the gateway itself with a leading slash.",
        handler=overall.commands,
        looks=True,
        gives=list[CommandView],
    ),
    Endpoint(
        method="GET",
        path="/search",
        about="Where something was said, the best first.",
        handler=overall.search,
        looks=True,
        query=overall.SearchQuery,
        gives=list[Found],
    ),
    Endpoint(
        method="GET",
        path="/store",
        about="Whether the database and the search index are sound; every page is read.",
        handler=overall.store,
        looks=True,
        gives=StoreView,
    ),
    Endpoint(
        method="POST",
        path="/search/rebuild",
        about="Throw the search index away and make it anew; answered when it is whole.",
        handler=overall.rebuild_search,
        looks=False,
        gives=SearchView,
    ),
    Endpoint(
        method="GET",
        path="/events",
        about="Which sessions change, as server-sent events.",
        handler=streams.all_events,
        looks=True,
        gives=str,
        gives_media=(Media.EVENTS,),
    ),
    Endpoint(
        method="GET",
        path="/logs",
        about="The newest lines of the log, or those before a line.",
        handler=logs.log_lines,
        looks=True,
        query=logs.LogQuery,
        gives=LogPage,
    ),
    Endpoint(
        method="GET",
        path="/logs/events",
        about="The lines of the log as they are written, as server-sent events.",
        handler=logs.log_events,
        looks=True,
        query=logs.LogEventsQuery,
        gives=str,
        gives_media=(Media.EVENTS,),
    ),
    Endpoint(
        method="GET",
        path="/openapi.json",
        about="This, for programs.",
        handler=describing.describe,
        looks=True,
        gives=dict[str, Any],
    ),
)
