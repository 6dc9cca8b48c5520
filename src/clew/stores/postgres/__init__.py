"""A store in a PostgreSQL database, for sessions that many machines share."""

from clew.stores.postgres.store import PostgresStore as PostgresStore
