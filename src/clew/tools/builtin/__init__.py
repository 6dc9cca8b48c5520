"""The tools every session can have: files, search and a shell."""

from clew.tools.builtin.bash import bash_tool
from clew.tools.builtin.edit import edit_tool
from clew.tools.builtin.glob import glob_tool
from clew.tools.builtin.grep import grep_tool
from clew.tools.builtin.ledger import FileLedger
from clew.tools.builtin.read import read_tool
from clew.tools.builtin.write import write_tool
from clew.tools.protocol import Tool


def builtin_tools() -> tuple[Tool, ...]:
    """Make a set of tools for one session.

    The file tools of a set share one memory of what was read: a file that somebody else
    changed in the meantime is not overwritten.
    """
    ledger = FileLedger()
    return (
        read_tool(ledger),
        write_tool(ledger),
        edit_tool(ledger),
        glob_tool(),
        grep_tool(),
        bash_tool(),
    )
