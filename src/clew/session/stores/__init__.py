"""Where journals are kept: a protocol, a store in memory, one in an SQLite file."""
