"""One table per program: which options read, write, run code, or do none of these."""

from clew.permissions.shell.arguments import Program
from clew.permissions.shell.tables.archives import ARCHIVES
from clew.permissions.shell.tables.copies import COPIES
from clew.permissions.shell.tables.listings import LISTINGS
from clew.permissions.shell.tables.network import NETWORK
from clew.permissions.shell.tables.readers import READERS

PROGRAMS: dict[str, Program] = {**READERS, **LISTINGS, **COPIES, **ARCHIVES, **NETWORK}
"""Every program with a table, except git, which has one for each subcommand."""
