"""The session log: what was sent, what came back, and what became of the history, as JSON lines.

The journal in the store is what a session is; the log is what people read to find out why. It
is written along the way, holds no secrets, and can be replayed. See `docs/session-log.md`.
"""
