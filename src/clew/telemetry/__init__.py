"""OpenTelemetry traces and metrics of sessions. Nothing here is imported unless they are wanted."""
