"""Clew's server as `clew serve` runs it, with higher limits, and with events on request."""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio

from benchmarks.server_pace import RATE_LIMITLESS, obey
from clew.core.events import TextDelta
from clew.sdk.session_spec import SessionSpec
from clew.server.access import AccessOptions, RequestLimits
from clew.server.access.audit import AUDIT_FILE
from clew.server.access.users import USERS_FILE
from clew.server.options import ServerOptions
from clew.server.run import RunningServer, run_server


def make_options(home: Path, token: str) -> ServerOptions:
    """Return the options of `clew serve`, but one user may have thousands of streams."""
    limits = RequestLimits(
        requests_per_second=RATE_LIMITLESS,
        request_burst=RATE_LIMITLESS,
        streams_per_user=RequestLimits().max_streams,
    )
    access = AccessOptions(
        token=token, users_file=home / USERS_FILE, audit_file=home / AUDIT_FILE, limits=limits
    )
    spec = SessionSpec(cwd=str(Path.cwd()), base_url="http://127.0.0.1:9/v1", model="gpt-4o")
    return ServerOptions(defaults=spec, environ=os.environ, access=access, port=0)


async def serve(options: ServerOptions) -> None:
    """Print the port, and serve until SIGTERM."""
    with anyio.open_signal_receiver(signal.SIGTERM) as received:
        async with run_server(options) as server, anyio.create_task_group() as tasks:
            print(server.port, flush=True)
            tasks.start_soon(obey, lambda text: _publish(server, text))
            async for _ in received:
                tasks.cancel_scope.cancel()
                break


def _publish(server: RunningServer, text: str) -> None:
    for live in server.state.find_service().sessions.list_open():
        live.client.session.bus.publish(TextDelta(text))


if __name__ == "__main__":
    backend = {"use_uvloop": find_spec("uvloop") is not None}
    home = Path(os.environ["CLEW_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    anyio.run(serve, make_options(home, sys.argv[1]), backend_options=backend)
