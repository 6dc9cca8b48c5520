"""The tools every session can have: files, search and a shell."""

from collections.abc import Sequence

from clew.tools.builtin.bash import bash_tool
from clew.tools.builtin.edit import edit_tool
from clew.tools.builtin.glob import glob_tool
from clew.tools.builtin.grep import grep_tool
from clew.tools.builtin.ledger import FileLedger
from clew.tools.builtin.read import read_tool
from clew.tools.builtin.write import write_tool
from clew.tools.protocol import Tool
from clew.tools.sandbox import Sandbox


def builtin_tools(
    *, sandbox: Sandbox | None = None, pass_env: Sequence[str] = ()
) -> tuple[Tool, ...]:
    """Make a set of tools for one session.

    The file tools of a set share one memory of what was read: a file that somebody else
    changed in the meantime is not overwritten.

    Args:
        sandbox: What commands run in; None uses bubblewrap where it works.
        pass_env: Names of variables, with `*` for anything, that commands get although they
            look like secrets.
    """
    ledger = FileLedger()
    return (
        read_tool(ledger),
        write_tool(ledger),
        edit_tool(ledger),
        glob_tool(),
        grep_tool(),
        bash_tool(sandbox=sandbox, pass_env=pass_env),
    )
