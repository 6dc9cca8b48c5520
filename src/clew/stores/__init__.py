"""Where journals are kept: a protocol, and stores in memory, in SQLite and in PostgreSQL."""
