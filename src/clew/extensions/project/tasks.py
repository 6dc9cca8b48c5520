"""Task files: what is being worked on, as Markdown below `.agents/tasks/`.

They are read as metadata: what a file says goes into the prompt as it is, on single lines, and
nothing is added that would tell a model what to do. Only `update_task_file_status` writes.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.errors import ClewError, ConfigError
from clew.extensions.listing import summarize_warnings
from clew.extensions.private_files import lock_folder, read_bounded, resolve_inside, write_private
from clew.extensions.project.facts import read_branch as branch_of
from clew.extensions.project.task_document import Document, with_progress, with_status

SettableStatus: TypeAlias = Literal["todo", "in-progress", "blocked", "completed"]
Status: TypeAlias = Literal["todo", "in-progress", "blocked", "completed", "unknown"]
SETTABLE: Final[tuple[SettableStatus, ...]] = get_args(SettableStatus)

MAX_FILE: Final = 256 * 1024
"""Bytes; a larger file is left out."""
MAX_FILES: Final = 1_000
MAX_ALL: Final = 1_000_000
"""Bytes of all files together; those after them are left out."""
_MAX_NAMED = 5
"""How many files that were left out are named."""
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
    """What a task file says about itself."""

    path: str
    """From the project's folder on."""
    title: str
    status: Status = "unknown"
    branch: str = ""
    scope: str = ""
    objective: str = ""
    open_items: tuple[str, ...] = ()
    """What is left to do before the task is complete."""


def load_task_context(
    cwd: Path,
    *,
    current_branch: str | None = None,
    max_tasks: int = 3,
    heading: bool = True,
    warn: Callable[[str], None] | None = None,
) -> str:
    """Return the tasks that are being worked on as Markdown; empty when there are none.

    Args:
        cwd: The project's folder.
        current_branch: The branch that is checked out; read from git's files unless given.
        max_tasks: How many are taken at most.
        heading: Begin with a heading.
        warn: Hears of files that were left out, and why.
    """
    tasks, warnings = find_tasks(cwd)
    if warn is not None:
        for warning in warnings:
            warn(warning)
    branch = read_branch(cwd) if current_branch is None else current_branch
    chosen = select_tasks(tasks, current_branch=branch, max_tasks=max_tasks)
    return format_task_context(chosen, heading=heading)


def read_branch(cwd: Path) -> str:
    """Return the branch that is checked out at `cwd`, from git's own files; else nothing."""
    return branch_of([*reversed(cwd.absolute().parents), cwd.absolute()])


def find_tasks(cwd: Path) -> tuple[tuple[Task, ...], tuple[str, ...]]:
    """Return the tasks of a project by name, and a few sentences about files that were left out.

    Only Markdown files directly in `.agents/tasks/` count, and of those not `README.md`.
    """
    found: list[Task] = []
    refused: list[str] = []
    room = MAX_ALL
    try:
        paths = _task_files(cwd)
    except (ClewError, OSError) as error:
        return (), (f"The task files were left out: {error}",)
    for path in paths[:MAX_FILES]:
        try:
            data = read_bounded(path, inside=cwd, limit=MAX_FILE) or b""
        except ClewError as error:
            refused.append(f"A task file was left out: {error}")
            continue
        room -= len(data)
        if room < 0:
            break
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        found.append(parse_task(text, path=path.relative_to(cwd).as_posix()))
    warnings = summarize_warnings(refused, _MAX_NAMED, "task files were left out")
    if unread := len(paths) - len(found) - len(refused):
        warnings = (
            f"Of {len(paths):,} task files {unread:,} were not read: at most {MAX_FILES:,} files"
            f" and {MAX_ALL:,} bytes are.",
            *warnings,
        )
    return tuple(found), warnings


def parse_task(text: str, *, path: str) -> Task:
    """Return what the text of a task file says."""
    document = Document(text)
    return Task(
        path=path,
        title=_short(document.value("title") or document.title() or Path(path).stem, _MAX_FIELD),
        status=_meaning(document.value("status")),
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
    """Return the tasks that matter most now.

    First come those of the current branch, then those in progress, to do, blocked and unknown;
    among equals the name decides. Completed ones never come.
    """

    def rank(task: Task) -> tuple[int, str]:
        is_here = bool(current_branch) and task.branch == current_branch
        return (0 if is_here else 1 + _RANKS.index(task.status)), task.path

    active = [task for task in tasks if task.status != "completed"]
    return tuple(sorted(active, key=rank)[: max(0, max_tasks)])


def format_task_context(tasks: Sequence[Task], *, heading: bool = True) -> str:
    """Return tasks as neutral Markdown; empty when there are none."""
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
    """Write a status into a task file, and a dated entry about progress when one is given.

    Everything else in the file stays as it is, byte for byte.

    Args:
        path: The file.
        status: One of `SETTABLE`.
        progress_message: Goes below today's date in the section `Progress`, on one line.
        clock: Seconds since the epoch; the date is that of UTC.

    Raises:
        ConfigError: There is no such status or file, or it is not one to write to.
        StoreUnavailable: The file cannot be read or written, or another process keeps it.
    """
    if status not in SETTABLE:
        raise ConfigError(f"There is no status {status!a}: use {', '.join(SETTABLE)}.")
    file = Path(path)
    if file.suffix != ".md":
        raise ConfigError(f"{file} is no task file: its name does not end with `.md`.")
    with lock_folder(resolve_inside(file.parent, inside=file.parent)):
        data = read_bounded(file, inside=file.parent, limit=MAX_FILE)
        if data is None:
            raise ConfigError(f"There is no task file {file}.")
        text = with_status(data.decode("utf-8", "surrogateescape"), status)
        if message := " ".join((progress_message or "").split()):
            date = datetime.fromtimestamp(clock(), UTC).date().isoformat()
            text = with_progress(text, message, date)
        changed = text.encode("utf-8", "surrogateescape")
        if changed != data:
            write_private(file, changed, inside=file.parent)


def _task_files(cwd: Path) -> list[Path]:
    folder = cwd / _FOLDER
    if not resolve_inside(folder, inside=cwd).is_dir():
        return []
    names = (path for path in folder.iterdir() if path.suffix.lower() == ".md")
    return sorted(path for path in names if path.name.lower() != "readme.md")


def _meaning(status: str) -> Status:
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
