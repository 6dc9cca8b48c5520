"""The security headers of every answer."""

from aiohttp import web

EVENT_STREAM = "text/event-stream"
"""The media type of a stream of events."""

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Only the server's own files are loaded, and no text ever becomes script."""

HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "Server": "clew",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


async def add_headers(_: web.BaseRequest, response: web.StreamResponse) -> None:
    """Add the headers to an answer before it is sent: a callback of `on_response_prepare`.

    Answers contain conversations, so nothing is stored unless a route allows it.
    """
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
