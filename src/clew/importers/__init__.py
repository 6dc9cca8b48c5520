"""Sessions that other tools recorded, read as messages and as journals.

`reading.read_session` opens a file of any known format; `journal.import_session` writes
what it found into a store.
"""
