"""A git server on loopback: smart HTTP, as `git http-backend` speaks it."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.runtime.repositories import commit_all, git

_QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def commit_folder(folder: Path) -> str:
    """Commit everything in a folder, which becomes a repository; returns the commit."""
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    return commit_all(folder, "change")


@contextmanager
def serve_git(root: Path) -> Iterator[str]:
    """Serve the repositories below a folder; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            done = subprocess.run(
                ["git", "http-backend"],
                input=self.rfile.read(length),
                env={
                    **os.environ,
                    **_QUIET,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "GIT_PROJECT_ROOT": str(root),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "PATH_INFO": parts.path,
                    "QUERY_STRING": parts.query,
                    "REQUEST_METHOD": self.command,
                },
                check=False,
                capture_output=True,
            )
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            fields = [line.split(": ", 1) for line in head.decode().split("\r\n") if line]
            status = next((value for name, value in fields if name == "Status"), "200")
            self.send_response(int(status[:3]))
            for name, value in fields:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
