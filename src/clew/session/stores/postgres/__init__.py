"""A store in a PostgreSQL database, for sessions that many machines share."""

from clew.session.stores.postgres.store import PostgresStore as PostgresStore
