"""Names of tools and of their arguments, in Clew and in other programs.

Imported sessions and messages of other frameworks use other names than Clew. The digest, the
restored files and Recall use these tables to find out what a call did.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

SHELL_TOOLS: Final = frozenset(
    {
        "bash", "shell", "exec_command", "local_shell", "execute", "terminal", "run_command",
        "run_shell_command", "execute_bash", "execute_command", "powershell", "shell_command",
        "container.exec", "run_in_terminal", "run_terminal_cmd",
    }
)  # fmt: skip
READ_TOOLS: Final = frozenset(
    {"read", "read_file", "view", "notebookread", "view_file", "open_file"}
)
SEARCH_TOOLS: Final = frozenset(
    {
        "grep", "glob", "ls", "websearch", "search", "find", "toolsearch", "search_file_content",
        "grep_search", "search_files", "file_search", "codebase_search", "list_directory",
        "list_dir", "list_files",
    }
)  # fmt: skip
CREATE_TOOLS: Final = frozenset({"write", "write_file", "create_file", "write_to_file"})
"""They write a whole file."""
CHANGE_TOOLS: Final = CREATE_TOOLS | {
    "edit", "multiedit", "notebookedit", "edit_file", "replace", "replace_in_file", "apply_diff",
    "str_replace", "str_replace_editor", "str_replace_based_edit_tool", "replace_string_in_file",
    "insert_edit_into_file", "search_replace",
}  # fmt: skip
"""They write or edit one file; all names are in lower case."""

AGENT_TOOLS: Final = frozenset(
    {
        "todowrite", "todo_write", "write_todos", "update_plan", "taskcreate", "taskupdate",
        "tasklist", "taskget", "taskoutput", "taskstop", "write_stdin", "bashoutput", "bash_output",
        "agentoutputtool", "killshell", "killbash", "kill_shell", "skill", "enterplanmode",
        "exitplanmode", "askuserquestion", "ask_user", "lsp", "recall", "executecommand",
        "webfetch", "web_fetch", "web_search", "google_web_search", "view_image", "save_memory",
        "structuredoutput", "wait", "wait_agent", "spawn_agent", "send_input", "close_agent",
    }
)  # fmt: skip
"""With them an agent manages itself, asks its user or reads the web."""

PATH_KEYS: Final = (
    *("file_path", "path", "notebook_path", "filename", "file", "filePath", "absolute_path"),
    *("target_file",),
)
COMMAND_KEYS: Final = ("command", "cmd", "script")
CONTENT_KEYS: Final = ("content", "file_text", "contents")
PART_KEYS: Final = frozenset(
    {
        "offset", "limit", "view_range", "start_line", "end_line", "startLine", "endLine",
        "start_line_one_indexed", "end_line_one_indexed_inclusive", "line_range",
    }
)  # fmt: skip
"""A read with one of them may be of a part of a file."""
_REPLACEMENT_KEYS = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("oldString", "newString"),
    ("oldText", "newText"),
)  # fmt: skip
_EVERYWHERE_KEYS = ("replace_all", "replaceAll", "allow_multiple")


def find_string(arguments: Mapping[str, object], keys: Iterable[str]) -> str:
    """Return the first argument with one of these keys that is a text; empty if there is none."""
    return find_content(arguments, keys) or ""


def find_content(arguments: Mapping[str, object], keys: Iterable[str] = CONTENT_KEYS) -> str | None:
    """Return the text that a call writes to a file; None if it is no text."""
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
    return None


def find_replacements(arguments: Mapping[str, object]) -> list[tuple[str, str, bool]]:
    """Return each old and new text of an edit, and whether it is replaced everywhere.

    Empty if one of them cannot be read.
    """
    listed = next((one for key in ("edits", "replacements") if (one := arguments.get(key))), None)
    edits: Sequence[object] = listed if isinstance(listed, list) else [arguments]
    found = [_read_replacement(edit) for edit in edits]
    return [one for one in found if one is not None] if None not in found else []


def _read_replacement(edit: object) -> tuple[str, str, bool] | None:
    if not isinstance(edit, dict):
        return None
    for old_key, new_key in _REPLACEMENT_KEYS:
        old, new = edit.get(old_key), edit.get(new_key)
        if isinstance(old, str) and isinstance(new, str):
            return old, new, any(edit.get(key) for key in _EVERYWHERE_KEYS)
    return None
