"""The security headers of everything that the listener serves."""

from aiohttp import web

_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def secure(request: web.Request, response: web.StreamResponse) -> None:
    """Runs as each response is about to be sent, streams included; a stricter one stays."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
