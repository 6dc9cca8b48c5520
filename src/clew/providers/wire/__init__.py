"""The wire formats: pure conversions between Clew's values and the bytes of the APIs.

There is one package per API, with `encode` (a `Request` to a body) and `decode` (the events of a
stream, or a whole response, to chunks). The modules beside them are shared: the cache of encoded
messages, the sanitizing of names and arguments, the base of the decoders. Nothing here opens a
connection.
"""
