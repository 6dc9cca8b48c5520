"""HTTP hooks: posts an event as JSON to a server and reads the JSON answer."""

import io
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from clew.hooks.command import MAX_BYTES
from clew.hooks.context import HookContext
from clew.hooks.handlers import HttpHook
from clew.hooks.output import interpret_body, report_failure
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


async def post_event(
    event: HookEvent, handler: HttpHook, payload: HookInput, context: HookContext
) -> HookVerdict:
    """Post an event to the server. A failed request is a report and decides nothing."""
    # Slow to import, and few sessions have an HTTP hook.
    from asyncio import IncompleteReadError  # noqa: PLC0415

    import aiohttp  # noqa: PLC0415

    try:
        async with (
            aiohttp.ClientSession(trust_env=not _is_local(handler.url)) as client,
            client.post(
                handler.url,
                # A stream, because aiohttp warns about large bodies of type bytes.
                data=io.BytesIO(payload.encode(event)),
                headers=build_headers(handler, context.environ),
                # The settings trust this server with the event, not the target of its redirects.
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as response,
        ):
            try:
                await response.content.readexactly(MAX_BYTES + 1)
            except IncompleteReadError as whole:
                status, body = response.status, whole.partial
            else:
                return report_failure(event, f"the server's answer has more than {MAX_BYTES} bytes")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return report_failure(event, f"the request failed: {error}")
    if not 200 <= status < 300:
        return report_failure(event, f"the server answered with status {status}")
    return interpret_body(event, body.decode(errors="replace"))


def build_headers(handler: HttpHook, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the allowed environment variables inserted."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return environ.get(name, "") if name in handler.allowed_env_vars else ""

    filled = {
        name: _CONTROL.sub("", _VARIABLE.sub(value, text)) for name, text in handler.headers.items()
    }
    return {"Content-Type": "application/json", **filled}


def _is_local(url: str) -> bool:
    """Is this a URL of this machine, which needs no proxy?"""
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
