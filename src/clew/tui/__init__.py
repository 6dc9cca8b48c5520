"""The terminal UI: a client of `SessionClient` that prints blocks above an input line."""
