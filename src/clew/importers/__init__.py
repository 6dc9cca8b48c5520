"""Read sessions that other tools recorded, and import them as journals.

`reader.read_session` reads a file of any known format; `journal.import_session` writes a
session to a store.
"""
