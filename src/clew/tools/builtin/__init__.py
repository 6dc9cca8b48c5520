"""The built-in tools: files, search, a shell, the web and a todo list."""

from collections.abc import Sequence

from clew.tools.builtin.bash import bash_tool
from clew.tools.builtin.edit import edit_tool
from clew.tools.builtin.file_states import FileStates
from clew.tools.builtin.glob import glob_tool
from clew.tools.builtin.grep import grep_tool
from clew.tools.builtin.read import read_tool
from clew.tools.builtin.todo import todo_tool
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

    The file tools of a set share what they know of files: they do not overwrite a file that
    another program changed in the meantime.

    Args:
        sandbox: The sandbox for commands; None uses the one that works here.
        pass_env: Environment variables (`*` is a wildcard) that commands get although their
            names look like secrets.
        web: The limits of WebFetch; by default it reaches the public internet only.
        search: The search engine for WebSearch; without one, each call says what to set.
    """
    states = FileStates()
    return (
        read_tool(states),
        write_tool(states),
        edit_tool(states),
        glob_tool(),
        grep_tool(),
        bash_tool(sandbox=sandbox, pass_env=pass_env),
        webfetch_tool(web),
        websearch_tool(search),
        todo_tool(),
    )
