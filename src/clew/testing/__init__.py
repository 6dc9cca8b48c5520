"""Fakes and conformance checks that ship, for tests of your own code.

`providers` and `stores` hold the checks. `server` is a scripted model server on loopback;
`fake_apis` encode replies for it as each API does, and `request_parsers` read requests back.
"""
