"""The process that runs the embedded model and serves it on loopback.

Run as `python -m clew.providers.embedded.server --model PATH`. It writes one line of JSON to
stdout, with its address or the error, and exits when stdin closes: so it ends with its parent, even
if that was killed.
"""

import argparse
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

HOST = "127.0.0.1"
KEY_VARIABLE = "CLEW_EMBEDDED_KEY"
"""The parent passes the API key in this variable."""
CACHE_MIB = 64
HTTP_THREADS = 4


class StartupReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The line that the parent waits for."""

    address: str = ""
    error: str = ""
    """One of `missing`, `port`, `model`."""
    detail: str = ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until stdin closes."""
    options = _parser().parse_args(arguments)
    # llama.cpp may print; stdout is reserved for the report.
    out = os.dup(1)
    os.dup2(2, 1)
    report, server = _start(options)
    os.write(out, msgspec.json.encode(report) + b"\n")
    if server is None:
        sys.exit(1)
    sys.stdin.buffer.read()
    # A normal exit would wait for the current generation.
    os._exit(0)


def _start(options: argparse.Namespace) -> tuple[StartupReport, object | None]:
    try:
        import xllamacpp  # noqa: PLC0415 - it may be missing, which is reported to the parent
    except ImportError as error:
        return StartupReport(error="missing", detail=str(error)), None
    if not _is_free(options.port):
        return StartupReport(error="port", detail=str(options.port)), None
    try:
        server = xllamacpp.Server(_params(xllamacpp.CommonParams, options))
    except RuntimeError as error:
        reason = "model" if _is_free(options.port) else "port"
        return StartupReport(error=reason, detail=str(error)), None
    return StartupReport(address=server.listening_address), server


def _params(make: Callable[[], Any], options: argparse.Namespace) -> object:
    params = make()
    params.model.path = options.model
    params.n_ctx = options.window
    params.n_parallel = 1
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.n_threads_http = HTTP_THREADS
    params.warmup = False
    params.hostnames = [HOST]
    params.port = options.port
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 0
    params.cors_origins = "null"
    params.cache_ram_mib = CACHE_MIB
    # With the default sampling, a model this small repeats itself.
    params.sampling.temp = 0.2
    params.sampling.penalty_repeat = 1.15
    params.sampling.seed = 7
    key = os.environ.pop(KEY_VARIABLE, "")
    if key:
        params.api_keys = [key]
    return params


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clew.providers.embedded.server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=1)
    return parser


if __name__ == "__main__":
    main()
