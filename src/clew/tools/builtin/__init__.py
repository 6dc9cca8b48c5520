"""The tools every session can have: files, search, a shell and the web."""

from collections.abc import Sequence

from clew.tools.builtin.bash import bash_tool
from clew.tools.builtin.edit import edit_tool
from clew.tools.builtin.glob import glob_tool
from clew.tools.builtin.grep import grep_tool
from clew.tools.builtin.ledger import FileLedger
from clew.tools.builtin.read import read_tool
from clew.tools.builtin.webfetch import webfetch_tool
from clew.tools.builtin.websearch import websearch_tool
from clew.tools.builtin.write import write_tool
from clew.tools.protocol import Tool
from clew.tools.sandbox import Sandbox
from clew.tools.web.protocol import PUBLIC_INTERNET, FetchLimits, SearchBackend


def builtin_tools(
    *,
    sandbox: Sandbox | None = None,
    pass_env: Sequence[str] = (),
    web: FetchLimits = PUBLIC_INTERNET,
    search: SearchBackend | None = None,
) -> tuple[Tool, ...]:
    """Make a set of tools for one session.

    The file tools of a set share one memory of what was read: a file that somebody else
    changed in the meantime is not overwritten.

    Args:
        sandbox: What commands run in; None uses bubblewrap where it works.
        pass_env: Names of variables, with `*` for anything, that commands get although they
            look like secrets.
        web: How far WebFetch may go; by default to the public internet only.
        search: Who answers WebSearch; without one, each search says what to set.
    """
    ledger = FileLedger()
    return (
        read_tool(ledger),
        write_tool(ledger),
        edit_tool(ledger),
        glob_tool(),
        grep_tool(),
        bash_tool(sandbox=sandbox, pass_env=pass_env),
        webfetch_tool(web),
        websearch_tool(search),
    )
