"""Decides whether sessions are traced, and makes the object that does it.

OpenTelemetry is imported only if the program has imported it before, which is the only way to set
it up, or if the settings ask for it.
"""

import sys
from collections.abc import Mapping

from clew.config.settings import Settings
from clew.core.errors import MissingExtra
from clew.telemetry.protocol import Telemetry

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_DISABLED_VARIABLE = "OTEL_SDK_DISABLED"
_CONTENT = frozenset({"true", "1", "span_only", "span_and_event"})


def find_telemetry(settings: Settings, environ: Mapping[str, str]) -> Telemetry | None:
    """Return what traces a session; None if nothing would be recorded.

    Raises:
        MissingExtra: The settings ask for it, but OpenTelemetry is not installed.
    """
    wanted = settings.telemetry.enabled
    if wanted is False or environ.get(_DISABLED_VARIABLE, "").lower() == "true":
        return None
    if wanted is not True and not _is_set_up():
        return None
    try:
        from clew.telemetry.tracer import SessionTelemetry  # noqa: PLC0415 - see above
    except ImportError as error:
        text = "The settings ask for traces, and OpenTelemetry is not installed."
        raise MissingExtra(text, extra="otel") from error
    return SessionTelemetry(content=wants_content(settings, environ), environ=environ)


def wants_content(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Return whether prompts and answers are recorded: the settings or the variable say so."""
    if settings.telemetry.content is True:
        return True
    return environ.get(CONTENT_VARIABLE, "").lower() in _CONTENT


def _is_set_up() -> bool:
    """Return whether the program has set a provider of traces or metrics."""
    trace, metrics = (sys.modules.get(f"opentelemetry.{name}") for name in ("trace", "metrics"))
    if trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return True
    # The placeholder for metrics has no public name.
    return metrics is not None and not type(metrics.get_meter_provider()).__name__.startswith(
        "_Proxy"
    )
