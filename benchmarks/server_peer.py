"""The same work on FastAPI and uvicorn: a minimal server as one would write it for this.

One queue per client. Each event is encoded once for all clients, and a client that is behind gets
all that waits in one piece. Streams end when the server is told to stop; without that, uvicorn
waits for them.
"""

import asyncio
import hmac
import json
import socket
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import anyio
import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse

from benchmarks.server_pace import obey

_HEARTBEAT = 15.0


class Hub:
    """The clients, and what they get."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[bytes]] = set()
        self._seq = int(time.time() * 1000)

    def publish(self, text: str) -> None:
        """Send an event to all clients."""
        self._seq += 1
        event = {"event": "text_delta", "text": text}
        envelope = {"seq": self._seq, "session_id": "peer", "at": time.time(), "event": event}
        data = json.dumps(envelope, separators=(",", ":"))
        frame = f"id: {self._seq}\nevent: text_delta\ndata: {data}\n\n".encode()
        for queue in self._queues:
            queue.put_nowait(frame)

    def stop(self) -> None:
        """End all streams."""
        for queue in self._queues:
            queue.put_nowait(b"")

    async def follow(self) -> AsyncGenerator[bytes, None]:
        """Yield what one client gets."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._queues.add(queue)
        try:
            while True:
                try:
                    frames = [await asyncio.wait_for(queue.get(), _HEARTBEAT)]
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                while not queue.empty():
                    frames.append(queue.get_nowait())
                yield b"".join(frames)
                if not frames[-1]:
                    return
        finally:
            self._queues.discard(queue)


class Server(uvicorn.Server):
    """Ends the streams when it is told to stop."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, and end the streams."""
        super().handle_exit(sig, frame)
        asyncio.get_running_loop().call_soon_threadsafe(self._hub.stop)


def make_app(hub: Hub, token: str, snapshot: Mapping[str, Any]) -> FastAPI:
    """Return the application."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(obey, hub.publish)
            yield
            tasks.cancel_scope.cancel()

    async def check(authorization: Annotated[str, Header()] = "") -> None:
        if not hmac.compare_digest(authorization.encode(), b"Bearer " + token.encode()):
            raise HTTPException(401)

    async def health() -> dict[str, str]:
        return {"status": "ok", "version": "1.0.0"}

    async def read_snapshot(session_id: str) -> dict[str, Any]:
        return {**snapshot, "session_id": session_id}

    async def follow(session_id: str) -> StreamingResponse:  # noqa: ARG001 - part of the address
        return StreamingResponse(hub.follow(), media_type="text/event-stream")

    app = FastAPI(lifespan=lifespan)
    checked = [Depends(check)]
    app.add_api_route("/api/v1/health", health)
    app.add_api_route("/api/v1/sessions/{session_id}", read_snapshot, dependencies=checked)
    app.add_api_route("/api/v1/sessions/{session_id}/events", follow, dependencies=checked)
    return app


def main(token: str, snapshot: Path) -> None:
    """Print the port, and serve until SIGTERM."""
    hub = Hub()
    app = make_app(hub, token, json.loads(snapshot.read_bytes()))
    # With this protocol number, asyncio turns off Nagle's algorithm, as where uvicorn binds by
    # itself. With 0, each answer would wait 40 ms for an acknowledgement.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1_024)
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(app, access_log=False, log_level="error", backlog=1_024)
        Server(config, hub).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
