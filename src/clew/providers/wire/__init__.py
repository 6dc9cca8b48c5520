"""The wire formats: pure functions between Clew's values and a provider's bytes.

One package per API, each with the same three modules: `encode` (a `Request` to a body),
`decode` (the events of an answer, or a whole answer, to chunks) and `recorded` (a body back
to a `Request`). Beside them stands what they share: what is kept of messages, how names and
arguments are spelt, how events are read. Nothing here opens a connection.
"""
