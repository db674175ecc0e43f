"""The route table of `/api/v1`, and the router that finds the endpoint of a request."""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from aiohttp import web

from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import Endpoint, Reach, run_guarded
from holdfast.server.api.errors import EndpointError, not_found
from holdfast.server.api.mount import PREFIX
from holdfast.server.api.v1 import (
    accounts,
    approvals,
    audit,
    config,
    gateway,
    jobs,
    logs,
    memory,
    messages,
    outbox,
    pairing,
    processes,
    sessions,
    streams,
    tokens,
    transcript_stats,
    transcripts,
    turns,
)
from holdfast.server.auth.tokens import HttpPrincipal

ENDPOINTS: tuple[Endpoint, ...] = (
    *gateway.ENDPOINTS,
    *accounts.ENDPOINTS,
    *logs.ENDPOINTS,
    *streams.ENDPOINTS,
    *config.ENDPOINTS,
    *sessions.ENDPOINTS,
    *transcripts.ENDPOINTS,
    *transcript_stats.ENDPOINTS,
    *turns.ENDPOINTS,
    *messages.ENDPOINTS,
    *processes.ENDPOINTS,
    *memory.ENDPOINTS,
    *jobs.ENDPOINTS,
    *outbox.ENDPOINTS,
    *approvals.ENDPOINTS,
    *pairing.ENDPOINTS,
    *audit.ENDPOINTS,
    *tokens.ENDPOINTS,
)


class ApiRouter:
    """Owns the endpoints by the number of parts of their paths, fixed paths before parameters."""

    def __init__(self, context: ApiContext, endpoints: Iterable[Endpoint] = ENDPOINTS) -> None:
        self._context = context
        self._by_length: dict[int, list[tuple[Sequence[str], Endpoint]]] = {}
        for endpoint in sorted(endpoints, key=lambda each: each.path.count("{")):
            pattern = endpoint.path.split("/")
            self._by_length.setdefault(len(pattern), []).append((pattern, endpoint))

    async def serve(self, request: web.Request) -> web.StreamResponse:
        # The raw path: a slash written as %2F does not separate parts.
        sent = request.rel_url.raw_path.removeprefix(PREFIX).split("/")
        parts = [unquote(part) for part in sent]
        same_path: list[Endpoint] = []
        for pattern, endpoint in self._by_length.get(len(parts), ()):
            named = _match(pattern, parts)
            if named is not None and endpoint.method == request.method:
                return await endpoint.serve(self._context, request, named)
            if named is not None:
                same_path.append(endpoint)
        return await self._refuse(request, same_path)

    async def _refuse(
        self, request: web.Request, same_path: Iterable[Endpoint]
    ) -> web.StreamResponse:
        """Authenticated first: without access, a client does not learn which paths exist."""

        async def refuse(principal: HttpPrincipal) -> web.StreamResponse:
            raise _no_route(request, same_path)

        return await run_guarded(
            self._context, request, refuse, read_only=True, reach=Reach.PRINCIPAL
        )


def _match(pattern: Sequence[str], parts: Sequence[str]) -> Mapping[str, str] | None:
    """The path parameters; None: another path."""
    named: dict[str, str] = {}
    for want, part in zip(pattern[1:], parts[1:], strict=True):
        if part and want.startswith("{"):
            named[want[1:-1]] = part
        elif want != part:
            return None
    return named


def _no_route(request: web.Request, same_path: Iterable[Endpoint]) -> EndpointError:
    names = ", ".join(sorted({endpoint.method for endpoint in same_path}))
    if not names:
        return not_found(
            "There is no {path} here; GET {prefix}/openapi.json lists all endpoints.",
            path=request.path,
            prefix=PREFIX,
        )
    refused = EndpointError(
        405,
        "{path} accepts {methods}, not {method}.",
        path=request.path,
        methods=names,
        method=request.method,
        code="method_not_allowed",
    )
    refused.headers["Allow"] = names
    return refused
