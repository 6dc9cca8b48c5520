"""Attaches what a prompt refers to: files, folders, images and other sessions.

Text is attached as a call of the tool that reads it, with its result: so permission rules,
redaction, truncation, clearing and recall treat it like any other file that was read. Images
become parts of the prompt. So do texts for a model that cannot call tools, or that must think
before its first call: a call without thinking would switch thinking off for the whole run.
"""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import msgspec
from anyio import to_thread

from clew.context.recall import RECALL
from clew.core.entries import ContextReference
from clew.core.errors import StoreError
from clew.core.events import Warned
from clew.core.ids import SessionId, new_call_id
from clew.core.messages import Image, Part, Text, ToolCall
from clew.core.text import one_line
from clew.providers.effort import must_think_first
from clew.session.references import (
    SESSION,
    Attachments,
    PromptReference,
    find_references,
    is_file_name,
    is_image_name,
)
from clew.session.state import SessionState
from clew.session.tool_execution import (
    CallOutcome,
    make_interrupted_outcome,
    publish_end,
    run_call,
)
from clew.session.tool_output import redact_output, truncate_output
from clew.tools.protocol import ReadsResources, ToolOutput

_READ, _GLOB, _READ_RESOURCE = "Read", "Glob", "ReadMcpResource"
MOST_ATTACHMENTS = 20
_MOST_SESSIONS = 200
_SHOWN = 200
_MOST_COMPARED, _SHORTEST, _SIMILARITY = 2_000, 4, 0.85
"""Of a folder with similar names: the entries that are read, the least length, the likeness."""


async def find_attachments(state: SessionState, text: str) -> Attachments:
    """Find what a prompt refers to, and read the images.

    What does not exist is not a reference: the `@` stays a sign of the prompt. The user is told if
    it was probably a path.
    """
    found: list[ToolCall] = []
    for one in find_references(text):
        if (call := await _find_call(state, one)) is not None:
            found.append(call)
        elif one.kind == "path" and one.marked:
            cwd = state.tool_context.cwd
            if note := await to_thread.run_sync(_describe_missing, cwd, one.names):
                state.emit(Warned(note))
    if len(found) > MOST_ATTACHMENTS:
        state.emit(
            Warned(
                f"{len(found)} attachments are too many: the first {MOST_ATTACHMENTS} are attached"
            )
        )
    as_calls = state.journal.view.setup.model.calls_tools and not must_think_first(
        state.make_request_options()
    )
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for call in found[:MOST_ATTACHMENTS]:
        path = str(call.decode_arguments().get("file_path", ""))
        if is_image_name(path):
            parts += await _attach_image(state, call, path)
        elif as_calls:
            calls.append(call)
        else:
            parts.append(await _attach_text(state, call))
    references = tuple(map(_describe, found[:MOST_ATTACHMENTS]))
    return Attachments(parts=tuple(parts), calls=tuple(calls), references=references)


def _describe(call: ToolCall) -> ContextReference:
    """Return what a call that `_find_call` made attaches."""
    match call.name, call.decode_arguments():
        case name, {"session": str(session_id)} if name == RECALL:
            return ContextReference(kind="session", target=session_id)
        case _, {"server": str(server), "uri": str(uri)}:
            return ContextReference(kind="resource", target=f"{server}:{uri}")
        case _, {"pattern": _, "path": str(path)}:
            return ContextReference(kind="folder", target=path)
        case _, {"file_path": str(path), "offset": int(first), "limit": int(count)}:
            return ContextReference(kind="file", target=path, lines=f"{first}-{first + count - 1}")
        case _, arguments:
            path = str(arguments.get("file_path", ""))
            return ContextReference(kind="image" if is_image_name(path) else "file", target=path)


async def _find_call(state: SessionState, reference: PromptReference) -> ToolCall | None:
    """Return the call that reads what is referred to; None if it does not exist."""
    if reference.kind == "session":
        session_id = await _find_session(state, reference.names)
        return None if session_id is None else _call(state, RECALL, session=session_id)
    name = await to_thread.run_sync(_find_path, state.tool_context.cwd, reference.names)
    if name is None:
        return _find_resource(state, reference.names)
    if name.endswith("/"):
        return _call(state, _GLOB, pattern="**/*", path=name.rstrip("/"))
    if reference.first and name == reference.names[-1] and len(reference.names) > 1:
        limit = max(1, reference.last - reference.first + 1)
        return _call(state, _READ, file_path=name, offset=reference.first, limit=limit)
    return _call(state, _READ, file_path=name)


def _find_resource(state: SessionState, names: Sequence[str]) -> ToolCall | None:
    """Return the call that reads a resource of an MCP server: `server:uri`."""
    tool = state.tools.get(_READ_RESOURCE)
    if not isinstance(tool, ReadsResources):
        return None
    for name in reversed(names):
        server, colon, uri = name.partition(":")
        if colon and uri and tool.has_server(server):
            return _call(state, _READ_RESOURCE, server=server, uri=uri)
    return None


def _call(state: SessionState, tool: str, **arguments: object) -> ToolCall | None:
    if tool not in state.tools:
        name = next(iter(arguments.values()))
        text = f"{one_line(str(name), _SHOWN)} is not attached: this session has no tool {tool}"
        state.emit(Warned(text))
        return None
    text = msgspec.json.encode(arguments).decode()
    return ToolCall(call_id=new_call_id(), name=tool, arguments=text)


def _find_path(cwd: Path, names: Sequence[str]) -> str | None:
    """Return the first path that exists, with a slash at the end of a folder."""
    for name in names:
        try:
            path = cwd / Path(name).expanduser()
            if path.is_dir():
                # All files of the machine or of the user say nothing, and take long to list.
                return None if _is_too_large(path) else f"{name.rstrip('/')}/"
            if path.is_file():
                return name
        except (OSError, ValueError, RuntimeError):
            continue
    return None


def _describe_missing(cwd: Path, names: Sequence[str]) -> str:
    """Say that there is no such file; empty if no file was meant, or if there is one."""
    name = names[-1]
    try:
        if any((cwd / Path(each).expanduser()).exists() for each in names):
            return ""
        similar = _find_similar(cwd, name)
    except (OSError, ValueError, RuntimeError):
        similar = ""
    if not similar and not is_file_name(name):
        return ""
    hint = f"; did you mean @{one_line(similar, _SHOWN)}?" if similar else ""
    return f"@{one_line(name, _SHOWN)} is not attached: there is no such file{hint}"


def _find_similar(cwd: Path, name: str) -> str:
    """Return a file with nearly the same name in the same folder; in `cwd`, no folder."""
    parent, slash, last = name.rpartition("/")
    with os.scandir(cwd / Path(parent + slash).expanduser()) as entries:
        known = {
            each.name.lower(): each.name
            for each in islice(entries, _MOST_COMPARED)
            if slash or each.is_file()
        }
    near = get_close_matches(last.lower(), known, n=1, cutoff=_SIMILARITY)
    return f"{parent}{slash}{known[near[0]]}" if near and len(last) >= _SHORTEST else ""


def _is_too_large(folder: Path) -> bool:
    real = folder.resolve()
    return real == Path(real.anchor) or real == Path.home().resolve()


async def _find_session(state: SessionState, names: Sequence[str]) -> SessionId | None:
    """Return the session of this project with that id, name, or beginning of an id."""
    cwd = state.journal.record.cwd
    try:
        known = await state.options["store"].sessions(cwd=cwd, limit=_MOST_SESSIONS)
    except StoreError as error:
        state.emit(Warned(f"no session is attached: {error}"))
        return None
    for name in names:
        exact = [one.id for one in known if name in (one.id, one.name)]
        close = [one.id for one in known if name and one.id.startswith(name)]
        if len(set(exact or close)) == 1:
            return (exact or close)[0]
    name = one_line(names[-1], _SHOWN)
    why = "no single session of this project has that id or name"
    state.emit(Warned(f"{SESSION}{name} is not attached: {why}"))
    return None


async def _attach_image(state: SessionState, call: ToolCall, path: str) -> list[Part]:
    model = state.journal.view.setup.model
    if not model.sees:
        why = f"the model {model.name} does not accept images"
        return [_note_refusal(state, path, why)]
    output = await _read(state, call)
    if not output.images:
        why = output.text if output.failed else "it is not an image"
        return [_note_refusal(state, path, why)]
    facts = f"[attached image {output.text.strip('[]')}]"
    return [
        Text(facts),
        *(Image(media_type=one.media_type, data=one.data) for one in output.images),
    ]


async def _attach_text(state: SessionState, call: ToolCall) -> Part:
    """Return a text as a part of the prompt."""
    output = await _read(state, call)
    text = truncate_output(state, output.text)
    return Text(f"<attachment arguments='{call.arguments}'>\n{text}\n</attachment>")


async def read_output(state: SessionState, call: ToolCall) -> str:
    """Return the output of a call that a skill makes, as a part of its text.

    Rules, hooks and, where these leave it open, the user decide about the call.
    """
    output = await _read(state, call, attached=False)
    return truncate_output(state, output.text)


async def read_references(state: SessionState, text: str) -> list[str]:
    """Return the files that `@path` in the text of a skill names, each as an attachment.

    Unlike in a prompt, the user did not name them: they are read only as far as a call of the
    model would be.
    """
    found = []
    for reference in find_references(text)[:MOST_ATTACHMENTS]:
        call = await _find_call(state, reference) if reference.kind != "session" else None
        if call is not None:
            output = await read_output(state, call)
            found.append(f"<attachment arguments='{call.arguments}'>\n{output}\n</attachment>")
    return found


def _note_refusal(state: SessionState, path: str, why: str) -> Part:
    """Tell the user and the model that something could not be attached."""
    text = f"{one_line(path, _SHOWN)} is not attached: {one_line(why, _SHOWN).rstrip('.')}"
    state.emit(Warned(text))
    return Text(f"[{text}]")


async def _read(state: SessionState, call: ToolCall, *, attached: bool = True) -> ToolOutput:
    """Run a call whose result becomes a part of the prompt."""
    outcome: CallOutcome | None = None
    try:
        outcome = await run_call(state, call, attached=attached)
    finally:
        output = _end_call(state, call, outcome or make_interrupted_outcome(state, call))
    return output


def _end_call(state: SessionState, call: ToolCall, outcome: CallOutcome) -> ToolOutput:
    output = redact_output(state, outcome.output)
    state.decisions.pop(call.call_id, None)
    state.progress.pop(call.call_id, None)
    publish_end(state, call, outcome, output)
    return output
