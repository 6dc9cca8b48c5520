"""Hooks that are servers: the JSON is posted, and the answer is JSON."""

import io
import re
from asyncio import IncompleteReadError
from collections.abc import Mapping
from urllib.parse import urlsplit

from clew.hooks.context import HookContext
from clew.hooks.handlers import HttpHook
from clew.hooks.output import failure, read_body
from clew.hooks.process import MAX_BYTES
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


async def post(
    event: HookEvent, handler: HttpHook, payload: HookInput, means: HookContext
) -> HookVerdict:
    """Ask the server. A bad status or no connection is a report and decides nothing."""
    import aiohttp  # noqa: PLC0415 - few sessions have such a hook

    try:
        async with (
            aiohttp.ClientSession(trust_env=not _is_near(handler.url)) as client,
            client.post(
                handler.url,
                # Sent as a stream, because aiohttp warns of large bodies that are bytes.
                data=io.BytesIO(payload.encode(event)),
                headers=headers_for(handler, means.environ),
                # A hook is trusted with the input; where it sends us is not.
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as response,
        ):
            try:
                await response.content.readexactly(MAX_BYTES + 1)
            except IncompleteReadError as whole:
                status, body = response.status, whole.partial
            else:
                return failure(event, f"the server's answer is longer than {MAX_BYTES} bytes")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return failure(event, f"the server could not be asked: {error}")
    if not 200 <= status < 300:
        return failure(event, f"the server answered with status {status}")
    return read_body(event, body.decode(errors="replace"))


def headers_for(handler: HttpHook, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the variables that they may name."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return environ.get(name, "") if name in handler.allowed_env_vars else ""

    filled = {
        name: _CONTROL.sub("", _VARIABLE.sub(value, text)) for name, text in handler.headers.items()
    }
    return {"Content-Type": "application/json", **filled}


def _is_near(url: str) -> bool:
    """Is it this machine, which no proxy should be asked for?"""
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
