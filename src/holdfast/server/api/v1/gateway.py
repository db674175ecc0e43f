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
from holdfast.server.api.v1.whoami import WhoamiView
from holdfast.server.api.views.account_views import AccountList, AccountView
from holdfast.server.api.views.departing_views import RestartParams, StopAccepted, StopParams
from holdfast.server.api.views.overall_views import CommandView, StatusView, StoreView
from holdfast.server.api.views.search_views import SearchHitView, SearchIndexView

_SESSION = "/sessions/{id}"
_ACCOUNT = "/platforms/{name}/{account}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/status",
        summary="How the gateway is, and which model answers.",
        handler=overall.read_status,
        read_only=True,
        response_type=StatusView,
    ),
    Endpoint(
        method="GET",
        path="/whoami",
        summary="As whom this is asked, and in which role.",
        handler=whoami.whoami,
        read_only=True,
        response_type=WhoamiView,
    ),
    Endpoint(
        method="GET",
        path="/chart",
        summary="What it did, and how quickly, over the last hour or day.",
        handler=charts.read_chart,
        read_only=True,
        query=charts.ChartQuery,
        response_type=Chart,
    ),
    Endpoint(
        method="GET",
        path="/platforms",
        summary="Every account of every platform: whether it is connected, and if not, why.",
        handler=accounts.list_accounts,
        read_only=True,
        response_type=AccountList,
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/pause",
        summary="Let an account go, until somebody resumes it. No turn is cut, and nothing is lost.",
        handler=accounts.pause_account,
        read_only=False,
        response_type=AccountView,
        error_statuses=(404, 409),
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/resume",
        summary="Connect an account that was paused or refused, or that waits for its next try.",
        handler=accounts.resume_account,
        read_only=False,
        response_type=AccountView,
        error_statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/check",
        summary="Have a round trip to an account now, or try to connect it, and say what came of it.",
        handler=accounts.check_account,
        read_only=False,
        response_type=AccountView,
        error_statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/restart",
        summary="Restart the gateway; what runs goes on afterwards. Refused where it could not.",
        handler=departing.restart_gateway,
        read_only=False,
        request_type=RestartParams,
        response_type=StopAccepted,
        statuses=(202,),
        error_statuses=(409,),
    ),
    Endpoint(
        method="GET",
        path="/restarts",
        summary="How processes of this gateway ended, and what became of what ran; the newest first.",
        handler=restarts.list_restarts,
        read_only=True,
        query=restarts.RestartsQuery,
        response_type=restarts.RestartList,
    ),
    Endpoint(
        method="POST",
        path="/stop",
        summary="Stop the gateway; it stays down until somebody starts it.",
        handler=departing.stop_gateway,
        read_only=False,
        request_type=StopParams,
        response_type=StopAccepted,
        statuses=(202,),
    ),
    Endpoint(
        method="GET",
        path="/commands",
        summary="What can be asked of the gateway itself with a leading slash.",
        handler=overall.list_commands,
        read_only=True,
        response_type=list[CommandView],
    ),
    Endpoint(
        method="GET",
        path="/search",
        summary="Where something was said, the best first.",
        handler=overall.search_transcripts,
        read_only=True,
        query=overall.TranscriptSearchQuery,
        response_type=list[SearchHitView],
    ),
    Endpoint(
        method="GET",
        path="/store",
        summary="Whether the database and the search index are sound; every page is read.",
        handler=overall.check_store,
        read_only=True,
        response_type=StoreView,
    ),
    Endpoint(
        method="POST",
        path="/search/rebuild",
        summary="Throw the search index away and make it anew; answered when it is whole.",
        handler=overall.rebuild_search,
        read_only=False,
        response_type=SearchIndexView,
    ),
    Endpoint(
        method="GET",
        path="/events",
        summary="Which sessions change, as server-sent events.",
        handler=streams.stream_changes,
        read_only=True,
        response_type=str,
        response_media=(Media.EVENTS,),
    ),
    Endpoint(
        method="GET",
        path="/logs",
        summary="The newest lines of the log, or those before a line.",
        handler=logs.read_log,
        read_only=True,
        query=logs.LogQuery,
        response_type=LogPage,
    ),
    Endpoint(
        method="GET",
        path="/logs/events",
        summary="The lines of the log as they are written, as server-sent events.",
        handler=logs.stream_log,
        read_only=True,
        query=logs.LogEventsQuery,
        response_type=str,
        response_media=(Media.EVENTS,),
    ),
    Endpoint(
        method="GET",
        path="/openapi.json",
        summary="This, for programs.",
        handler=describing.read_openapi,
        read_only=True,
        response_type=dict[str, Any],
    ),
)
