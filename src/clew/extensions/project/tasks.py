"""Task files: open tasks as Markdown in `.agents/tasks/`.

Their metadata goes into the prompt unchanged, one line each, without instructions for the model.
Only `update_task_file_status` writes.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.errors import ClewError, ConfigError
from clew.extensions.private_files import lock_folder, read_bounded, resolve_inside, write_private
from clew.extensions.project.facts import read_branch as branch_of
from clew.extensions.project.task_document import TaskDocument, add_progress, set_status
from clew.extensions.text_lists import summarize_warnings

SettableStatus: TypeAlias = Literal["todo", "in-progress", "blocked", "completed"]
Status: TypeAlias = Literal["todo", "in-progress", "blocked", "completed", "unknown"]
SETTABLE: Final[tuple[SettableStatus, ...]] = get_args(SettableStatus)

MAX_FILE: Final = 256 * 1024
"""Bytes; larger files are skipped."""
MAX_FILES: Final = 1_000
MAX_ALL: Final = 1_000_000
"""Bytes of all files together; further files are skipped."""
_MAX_NAMED = 5
"""Skipped files that are named in warnings."""
_MAX_FIELD, _MAX_OBJECTIVE, _MAX_ITEMS, _MAX_PATH = 200, 600, 10, 300
_FOLDER = Path(".agents") / "tasks"

_RANKS: Final[tuple[Status, ...]] = ("in-progress", "todo", "blocked", "unknown")
_MEANINGS: Final[tuple[tuple[Status, str], ...]] = (
    ("todo", r"to[- ]?do|pending|open|planned|backlog|draft|ready|queued|not (?:yet|started|done)"),
    ("in-progress", r"in[- ]?progress|wip|doing|active|ongoing|started|working|in review"),
    ("blocked", r"blocked|on[- ]hold|paused|waiting|deferred"),
    ("completed", r"completed?|done|closed|finished|merged|shipped|resolved|cancell?ed|archived"),
)

_COMPLETION = re.compile(
    r"completion|definition of done|acceptance|criteria|done when", re.IGNORECASE
)
_OBJECTIVE = re.compile(r"(?:objectives?|goals?)\b", re.IGNORECASE)


class Task(Struct, frozen=True, kw_only=True):
    """The metadata of a task file."""

    path: str
    """Relative to the project's folder."""
    title: str
    status: Status = "unknown"
    branch: str = ""
    scope: str = ""
    objective: str = ""
    open_items: tuple[str, ...] = ()
    """Unchecked completion items."""


def load_task_context(
    cwd: Path,
    *,
    current_branch: str | None = None,
    max_tasks: int = 3,
    heading: bool = True,
    warn: Callable[[str], None] | None = None,
) -> str:
    """Return the open tasks as Markdown; empty if there are none.

    Args:
        cwd: The project's folder.
        current_branch: The branch that is checked out; None reads it from git's files.
        max_tasks: The number of tasks at most.
        heading: Begin with a heading.
        warn: Called with a warning for files that were skipped.
    """
    tasks, warnings = find_tasks(cwd)
    if warn is not None:
        for warning in warnings:
            warn(warning)
    branch = read_branch(cwd) if current_branch is None else current_branch
    chosen = select_tasks(tasks, current_branch=branch, max_tasks=max_tasks)
    return format_task_context(chosen, heading=heading)


def read_branch(cwd: Path) -> str:
    """Return the branch that is checked out at `cwd`; empty if there is none."""
    return branch_of([*reversed(cwd.absolute().parents), cwd.absolute()])


def find_tasks(cwd: Path) -> tuple[tuple[Task, ...], tuple[str, ...]]:
    """Return the tasks of a project by file name, and warnings about skipped files.

    Only Markdown files directly in `.agents/tasks/` count, except `README.md`.
    """
    found: list[Task] = []
    refused: list[str] = []
    room = MAX_ALL
    try:
        paths = _task_files(cwd)
    except (ClewError, OSError) as error:
        return (), (f"The task files were skipped: {error}",)
    for path in paths[:MAX_FILES]:
        try:
            data = read_bounded(path, inside=cwd, limit=MAX_FILE) or b""
        except ClewError as error:
            refused.append(f"A task file was skipped: {error}")
            continue
        room -= len(data)
        if room < 0:
            break
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        found.append(parse_task(text, path=path.relative_to(cwd).as_posix()))
    warnings = summarize_warnings(refused, _MAX_NAMED, "task files were skipped")
    if unread := len(paths) - len(found) - len(refused):
        warnings = (
            f"{unread:,} of {len(paths):,} task files were skipped: the limit is"
            f" {MAX_FILES:,} files and {MAX_ALL:,} bytes.",
            *warnings,
        )
    return tuple(found), warnings


def parse_task(text: str, *, path: str) -> Task:
    """Parse the text of a task file."""
    document = TaskDocument(text)
    return Task(
        path=path,
        title=_short(document.value("title") or document.title() or Path(path).stem, _MAX_FIELD),
        status=_parse_status(document.value("status")),
        branch=_short(document.value("branch"), _MAX_FIELD),
        scope=_short(document.value("scope"), _MAX_FIELD),
        objective=_short(
            " ".join(document.section(_OBJECTIVE)) or document.value("objective"), _MAX_OBJECTIVE
        ),
        open_items=tuple(_short(item, _MAX_FIELD) for item in document.open_items(_COMPLETION)),
    )


def select_tasks(
    tasks: Sequence[Task], *, current_branch: str = "", max_tasks: int = 3
) -> tuple[Task, ...]:
    """Return the most relevant tasks.

    Tasks of the current branch come first, then those in progress, to do, blocked and unknown,
    each sorted by path. Completed tasks are excluded.
    """

    def rank(task: Task) -> tuple[int, str]:
        is_here = bool(current_branch) and task.branch == current_branch
        return (0 if is_here else 1 + _RANKS.index(task.status)), task.path

    active = [task for task in tasks if task.status != "completed"]
    return tuple(sorted(active, key=rank)[: max(0, max_tasks)])


def format_task_context(tasks: Sequence[Task], *, heading: bool = True) -> str:
    """Return tasks as neutral Markdown; empty if there are none."""
    if not tasks:
        return ""
    blocks = ["\n".join(_lines(task)) for task in tasks]
    return "\n\n".join(["## Active Task Context", *blocks] if heading else blocks)


def update_task_file_status(
    path: Path | str,
    status: SettableStatus,
    *,
    progress_message: str | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Set the status in a task file, and add a dated progress entry if one is given.

    The rest of the file stays unchanged, byte for byte.

    Args:
        path: The file.
        status: One of `SETTABLE`.
        progress_message: Added below today's date in the section `Progress`, on one line.
        clock: Returns the time, in seconds since the epoch; dates are in UTC.

    Raises:
        ConfigError: The status is not valid, or there is no such task file.
        StoreUnavailable: The file cannot be read or written, or another process has locked it.
    """
    if status not in SETTABLE:
        raise ConfigError(f"There is no status {status!a}: use {', '.join(SETTABLE)}.")
    file = Path(path)
    if file.suffix != ".md":
        raise ConfigError(f"{file} is not a task file: its name does not end with `.md`.")
    with lock_folder(resolve_inside(file.parent, inside=file.parent)):
        data = read_bounded(file, inside=file.parent, limit=MAX_FILE)
        if data is None:
            raise ConfigError(f"There is no task file {file}.")
        text = set_status(data.decode("utf-8", "surrogateescape"), status)
        if message := " ".join((progress_message or "").split()):
            date = datetime.fromtimestamp(clock(), UTC).date().isoformat()
            text = add_progress(text, message, date)
        changed = text.encode("utf-8", "surrogateescape")
        if changed != data:
            write_private(file, changed, inside=file.parent)


def _task_files(cwd: Path) -> list[Path]:
    folder = cwd / _FOLDER
    if not resolve_inside(folder, inside=cwd).is_dir():
        return []
    names = (path for path in folder.iterdir() if path.suffix.lower() == ".md")
    return sorted(path for path in names if path.name.lower() != "readme.md")


def _parse_status(status: str) -> Status:
    plain = re.sub(r"^[\W_]+", "", status.lower().replace("_", "-"))
    for known, words in _MEANINGS:
        if re.match(rf"(?:{words})\b", plain):
            return known
    return "unknown"


def _short(text: str, most: int) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _lines(task: Task) -> Iterator[str]:
    yield f"### {task.title}"
    yield ""
    yield f"- Path: `{_short(task.path, _MAX_PATH)}`"
    yield f"- Status: {task.status}"
    for name, value in (("Branch", task.branch), ("Scope", task.scope)):
        if value:
            yield f"- {name}: {value}"
    if task.objective:
        yield f"- Objective: {task.objective}"
    if task.open_items:
        yield "- Open completion items:"
        yield from (f"  - [ ] {item}" for item in task.open_items[:_MAX_ITEMS])
    if (more := len(task.open_items) - _MAX_ITEMS) > 0:
        yield f"  - ({more} more)"
