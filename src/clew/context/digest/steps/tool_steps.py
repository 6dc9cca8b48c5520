"""Tool steps: each tool call with its decoded arguments and its result.

The recorded programs name their tools differently. This module knows the names, so that the
ledgers ask only what a step did: ran a command, read a file, changed files.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec
from msgspec import Struct

from clew.context.digest.passages import strip_wrapping
from clew.context.digest.steps.shell_commands import split_command, strip_prefixes
from clew.context.digest.steps.shell_edits import FileEdit, list_shell_edits
from clew.context.digest.user_words import is_rejection
from clew.context.lazy_list import lazy_property
from clew.context.tool_arguments import (
    CHANGE_TOOLS,
    COMMAND_KEYS,
    CREATE_TOOLS,
    PATH_KEYS,
    READ_TOOLS,
    SHELL_TOOLS,
    find_content,
    find_string,
)
from clew.core.ids import NO_ENTRY, EntryId
from clew.core.json_text import JsonDecoder

_SHELL_PROGRAMS = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh")

_WRAPPER_HEAD = 600
_MOST_RECEIPT = 1_000
"""Characters of a result that only says that a job was started."""
_EXIT = re.compile(
    r"^(?:Process exited with code |Exit code:? |exit status |<exit_code>)(-?\d+)", re.MULTILINE
)
_RUNNING = re.compile(
    r"Process running with session ID (\w+)"
    r"|running in (?:the )?background with ID:? (\w+)"
    r"|background processes keep running in process group (\d+)"
    r"|^Async agent launched.*?^agentId: (\w+)"
    r"|<task_id>(\w+)</task_id>.*?<status>running",
    re.MULTILINE | re.DOTALL,
)
_POLLS = frozenset(
    {"write_stdin", "taskoutput", "bashoutput", "agentoutputtool", "killshell", "killbash",
     "taskstop", "bash_output", "kill_shell"}
)  # fmt: skip
_NOT_RUN = ("<tool_use_error>", "Error: no result was recorded", "Sibling tool call errored")
_FAILURES = ("Error", "ERROR", "<tool_use_error>", "error:", "Failed to")
_TRIAL_KEYS = ("dryRun", "dry_run")
_object = JsonDecoder(dict[str, object])


class ToolStep(Struct, frozen=True, kw_only=True, dict=True):
    """A tool call with its result, or a command that the user ran in the program's prompt.

    What takes long to read is read on first access, and once.
    """

    place: int
    """The index of the item with the call; steps of one item share it."""
    entry_id: EntryId
    name: str
    """The name of the tool, in lower case."""
    encoded: str = "{}"
    """The arguments as the model wrote them."""
    result: str = ""
    result_id: EntryId = NO_ENTRY
    failed: bool = False
    answered: bool = False
    """False while there is no result."""

    @lazy_property
    def arguments(self) -> dict[str, object]:
        """The arguments; empty if they are not a JSON object."""
        try:
            return _object.decode(self.encoded)
        except msgspec.DecodeError:
            return {}

    @lazy_property
    def command(self) -> str:
        """The shell command, or an empty string if this is no shell call."""
        if self.name not in SHELL_TOOLS:
            return ""
        found = next((self.arguments[key] for key in COMMAND_KEYS if key in self.arguments), "")
        if isinstance(found, list):
            words = [str(word) for word in found]
            wrapped = len(words) == 3 and words[0] in _SHELL_PROGRAMS
            return words[2] if wrapped else " ".join(words)
        return found if isinstance(found, str) else ""

    @lazy_property
    def simple_commands(self) -> list[tuple[str, bool]]:
        """The simple commands of the shell command; with each, whether a pipe follows it."""
        return [(strip_prefixes(part), piped) for part, piped in split_command(self.command)]

    @property
    def ran(self) -> bool:
        """True if the tool ran: the call has a result and was not refused."""
        if not self.failed:
            return self.answered
        refused = self.result.startswith(_NOT_RUN) or is_rejection(self.result)
        return self.answered and not refused

    @property
    def edits(self) -> tuple[FileEdit, ...]:
        """The files that the step changed: by a tool, a patch, or a shell command."""
        if self.failed or not self.answered or self.name in READ_TOOLS:
            return ()
        edits = self._edits
        return () if edits and self._did_nothing else edits

    @lazy_property
    def _did_nothing(self) -> bool:
        """True if an edit failed without being marked so, or was only tried."""
        if self.changes:
            is_trial = any(self.arguments.get(key) is True for key in _TRIAL_KEYS)
            is_undo = self.arguments.get("command") == "undo_edit"
            return is_trial or is_undo or self.result.lstrip().startswith(_FAILURES)
        return bool(self.patch) and self.exit_code not in (None, 0)

    @lazy_property
    def _edits(self) -> tuple[FileEdit, ...]:
        return tuple(_list_edits(self))

    @property
    def is_poll(self) -> bool:
        """True if the call asks for the output of a background job, or ends it."""
        return self.name in _POLLS

    @property
    def path(self) -> str:
        """The file that the call names, or an empty string."""
        return find_string(self.arguments, PATH_KEYS)

    @property
    def only_reads(self) -> bool:
        """True if the tool can do nothing but read a file."""
        return self.name in READ_TOOLS

    @property
    def reads(self) -> bool:
        """True if the call reads one file."""
        if self.name.startswith("str_replace"):
            return self.arguments.get("command") == "view"
        return self.name in READ_TOOLS

    @lazy_property
    def file_read(self) -> tuple[str, str]:
        """The file that the step read, and the lines, such as `120-180`; empty for all of them.

        The file is an empty string if the step read none.
        """
        return ("", "") if self.failed or not self.answered else _find_read(self)

    @lazy_property
    def paths(self) -> tuple[str, ...]:
        """Each path that the step changed or read."""
        path, _ = self.file_read
        return (*[change.path for change in self.edits], *([path] if path else ()))

    @property
    def changes(self) -> bool:
        """True if the call writes or edits one file."""
        return self.name in CHANGE_TOOLS and not self.reads

    @property
    def creates(self) -> bool:
        """True if the call writes a whole file."""
        return self.name in CREATE_TOOLS or self.arguments.get("command") == "create"

    @property
    def written(self) -> str | None:
        """The text of a call that writes a whole file; None if it is not known."""
        return find_content(self.arguments)

    @lazy_property
    def patch(self) -> str:
        """The patch that the call applies, also by a shell command; empty if there is none."""
        text = self.command or self.get_text("input") or self.get_text("patch")
        return text if "*** Begin Patch" in text else ""

    @property
    def output(self) -> str:
        """The result without what a program puts around the output of a command."""
        return strip_wrapping(self.result)

    @lazy_property
    def exit_code(self) -> int | None:
        """The exit code if the result gives one."""
        found = _EXIT.search(self.result[:_WRAPPER_HEAD])
        return int(found.group(1)) if found else None

    @lazy_property
    def background_id(self) -> str:
        """The id of the job that the call left running, or an empty string."""
        ends = [self.result[:_WRAPPER_HEAD]]
        if len(self.result) > _WRAPPER_HEAD:
            ends.append(self.result[-_WRAPPER_HEAD:])
        for text in ends:
            if "running" in text or "Async agent" in text:
                found = _RUNNING.search(text)
                if found:
                    return str(next(filter(None, found.groups())))
        return ""

    @property
    def is_left_running(self) -> bool:
        """True if the output says only that a job was started."""
        output = self.output
        return len(output) <= _MOST_RECEIPT and _RUNNING.search(output) is not None

    def get_text(self, key: str) -> str:
        """Return an argument as text; empty if it is missing, a list or an object."""
        value = self.arguments.get(key, "")
        return str(value) if isinstance(value, str | int) else ""


@lru_cache(maxsize=256)
def is_read_tool(name: str) -> bool:
    """Return whether a tool reads one file."""
    return name.lower() in READ_TOOLS


_PATCH_FILE = re.compile(
    r"^\*\*\* (Add|Update|Delete) File: (.+)$(?:\n\*\*\* Move to: (.+)$)?", re.MULTILINE
)


def _list_edits(step: ToolStep) -> Iterable[FileEdit]:
    if step.changes:
        return [FileEdit(step.path, "write" if step.creates else "edit")] if step.path else []
    if step.patch:
        return _list_patched(step.patch)
    return list_shell_edits(step.command) if step.command else []


def _list_patched(patch: str) -> Iterable[FileEdit]:
    kinds = {"Add": "write", "Update": "edit", "Delete": "delete"}
    for verb, path, target in _PATCH_FILE.findall(patch):
        if target:
            yield FileEdit(path.strip(), "delete", moved_to=target.strip())
            yield FileEdit(target.strip(), "write")
        else:
            yield FileEdit(path.strip(), kinds[verb])


_SHELL_READ = re.compile(
    r"^(?:(?:nl -ba|cat|head|tail|less|bat)(?: -[\w]+(?: \d+)?)*|sed -n) "
    r"(?:'(\d+),(\d+)p' )?([^\s'\"|;&<>*]+\.\w+)(?: \| sed -n '(\d+),(\d+)p')?"
)


def _find_read(step: ToolStep) -> tuple[str, str]:
    if step.reads:
        return step.path, _describe_range(step)
    found = _SHELL_READ.match(step.command) if step.command else None
    if found is None:
        return "", ""
    start, end = found.group(1) or found.group(4), found.group(2) or found.group(5)
    return found.group(3), f"{start}-{end}" if start else ""


def _describe_range(step: ToolStep) -> str:
    if "limit" not in step.arguments:
        return ""
    offset, limit = step.arguments.get("offset"), step.arguments["limit"]
    if not isinstance(offset, int | None) or not isinstance(limit, int):
        return ""
    start = offset or 1
    return f"{start}-{start + limit - 1}"
