"""What the server counts, as text that Prometheus reads."""

import time
from collections import Counter
from collections.abc import Callable

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts requests by route and status."""

    content_type = _TYPE

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[tuple[str, str]] = Counter()

    def count(self, method: str, path: str, status: int, *, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests[method, path, status] += 1
        self._seconds[method, path] += seconds  # type: ignore[assignment]

    def write(self, gauges: dict[str, tuple[str, float]]) -> str:
        """Return all numbers.

        Args:
            gauges: What is read at the time of the call: name → help and value.
        """
        lines = []
        uptime = ("Seconds since the start of the server.", self._clock() - self._started)
        for name, (text, value) in {**gauges, "clew_uptime_seconds": uptime}.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {value:g}"]
        lines += [
            "# HELP clew_requests_total Requests that have ended, by route and status.",
            "# TYPE clew_requests_total counter",
        ]
        for (method, path, status), count in sorted(self._requests.items()):
            labels = f'method="{method}",path="{path}",status="{status}"'
            lines.append(f"clew_requests_total{{{labels}}} {count}")
        lines += [
            "# HELP clew_request_seconds_total Seconds spent on requests, by route.",
            "# TYPE clew_request_seconds_total counter",
        ]
        for (method, path), seconds in sorted(self._seconds.items()):
            lines.append(
                f'clew_request_seconds_total{{method="{method}",path="{path}"}} {seconds:.6f}'
            )
        return "\n".join(lines) + "\n"
