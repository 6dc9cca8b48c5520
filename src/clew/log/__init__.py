"""The session log: JSON lines that show what was sent, what came back and how the history changed.

The journal in the store is the session itself; the log explains it. Clew writes the log while the
session runs, removes secrets, and can replay it without the store. See `docs/session-log.md`.
"""
