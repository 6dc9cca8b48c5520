"""A server that is attacked: `python -m attacks.served_victim FOLDER`, run by `http_server.py`.

Writes its port and then runs until its input ends. One session is open; its name and its prompt
hold `CANARY`, which no attack may read.
"""

import sys
from pathlib import Path

import aiohttp
import anyio
from anyio import to_thread

from clew.server.access import AccessOptions, RequestLimits
from clew.server.access.connections import raise_file_limit
from tests.server.places import serving

TOKEN = "clew_" + "s3cret" * 7
CANARY = "canary-7f3a9c"
MAX_BODY = 1 << 20


async def main(folder: Path) -> None:
    """Serve with short timeouts, so that attacks end soon."""
    limits = RequestLimits(
        max_body=MAX_BODY,
        head_seconds=1.0,
        body_seconds=1.0,
        max_connections=raise_file_limit(2_048),
        failure_burst=1_000_000,
    )
    access = AccessOptions(token=TOKEN, limits=limits, audit_file=folder / "audit.jsonl")
    async with serving(folder, access=access) as api:
        api.http.headers["Authorization"] = f"Bearer {TOKEN}"
        session_id = await api.open(name=CANARY)
        cookie = await _sign_in(api.server.make_login_link(), api.http)
        print(api.server.port, session_id, cookie, flush=True)
        await to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)


async def _sign_in(link: str, http: aiohttp.ClientSession) -> str:
    async with http.get(link, allow_redirects=False) as response:
        return response.headers["Set-Cookie"].partition(";")[0]


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
