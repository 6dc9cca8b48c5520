"""What a hook's answer means, by event.

Exit code 2 blocks where the event can be blocked, whatever else was printed. Any other code
counts only when nothing readable was printed. JSON that cannot be read is reported and
decides nothing.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from clew.core.access import Decision, Verdict
from clew.hooks.protocol import HookEvent, HookVerdict

PLAIN_CONTEXT = frozenset({HookEvent.USER_PROMPT_SUBMIT, HookEvent.SESSION_START})
"""Events for which plain output goes to the model."""
BLOCKABLE = frozenset(
    {
        HookEvent.USER_PROMPT_SUBMIT,
        HookEvent.POST_TOOL_USE,
        HookEvent.PRE_COMPACT,
        HookEvent.STOP,
        HookEvent.SUBAGENT_STOP,
        HookEvent.WORKTREE_CREATE,
    }
)
"""Events whose `block` means something. A PreToolUse hook denies instead."""
_NO_REASON = "the hook gave no reason"


class Ended(Struct, frozen=True):
    """How a command ended, and what it printed."""

    code: int
    stdout: str = ""
    stderr: str = ""
    dropped: int = 0
    """Bytes that were printed beyond the limit."""


class Specific(Struct, frozen=True, rename="camel"):
    """The part of an answer that depends on the event."""

    hook_event_name: str = ""
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    permission_decision_reason: str | None = None
    updated_input: dict[str, Any] | None = None
    updated_tool_output: Any = None
    additional_context: str | None = None
    worktree_path: str | None = None


class HookOutput(Struct, frozen=True, rename="camel"):
    """The JSON that a hook may answer with."""

    continue_: bool = field(default=True, name="continue")
    stop_reason: str | None = None
    suppress_output: bool = False
    system_message: str | None = None
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    hook_specific_output: Specific | None = None
    async_: bool = field(default=False, name="async")

    @property
    def specific(self) -> Specific:
        """The part that depends on the event; empty if there is none."""
        return self.hook_specific_output or Specific()


class Malformed(Struct, frozen=True):
    """Output that was meant as JSON and is not right."""

    why: str


Printed: TypeAlias = HookOutput | Malformed | str
"""What a hook printed: an answer, a failed one, or plain text."""

_FIELDS = frozenset(HookOutput.__struct_encode_fields__)


class Answer(Struct, frozen=True):
    """What a model or an agent says when a hook asks it."""

    ok: bool
    reason: str = ""
    impossible: bool = False
    """What the hook wants can never be; a run that wants to stop may."""


def failure(event: HookEvent, why: str) -> HookVerdict:
    """Return the verdict of a hook that did not work: a report, and no decision."""
    if event is HookEvent.WORKTREE_CREATE:
        return HookVerdict(block=why)
    return HookVerdict(reports=(why,))


def read_exit(event: HookEvent, ended: Ended) -> HookVerdict:
    """Return what a command that has ended says."""
    loose = event in PLAIN_CONTEXT
    printed = read_printed(ended.stdout, loose=loose, dropped=ended.dropped)
    if ended.code == 2:
        return _blocked(event, ended, printed)
    if isinstance(printed, Malformed):
        return failure(event, printed.why)
    unasked = event is HookEvent.WORKTREE_CREATE and ended.code
    if isinstance(printed, HookOutput) and not unasked:
        return read_output(event, printed)
    if ended.code:
        line = ended.stderr.strip().partition("\n")[0]
        return failure(event, f"failed with exit code {ended.code}" + (line and f": {line}"))
    return _plain(event, str(printed))


def read_body(event: HookEvent, body: str) -> HookVerdict:
    """Return what a server says that answered with a good status."""
    printed = read_printed(body)
    match printed:
        case HookOutput():
            return read_output(event, printed)
        case Malformed(why):
            return failure(event, why)
        case "":
            return HookVerdict()
        case _:
            return failure(event, "the server's answer is not a JSON object")


def read_answer(event: HookEvent, text: str, *, ends_turn: bool) -> HookVerdict:
    """Return what a model or an agent says that was asked.

    Args:
        event: What it was asked about.
        text: Its words, with the JSON somewhere in them.
        ends_turn: After a no about a tool call, the run ends.
    """
    start, end = text.find("{"), text.rfind("}")
    try:
        answer = msgspec.json.decode(text[start : end + 1], type=Answer)
    except msgspec.MsgspecError:
        return failure(
            event, f"the answer is not JSON with `ok` and `reason`: {text.strip()[:200]}"
        )
    stopping = event in (HookEvent.STOP, HookEvent.SUBAGENT_STOP)
    if answer.ok or (stopping and answer.impossible):
        return HookVerdict()
    reason = answer.reason.strip() or _NO_REASON
    stop = reason if ends_turn else None
    if event is HookEvent.PRE_TOOL_USE:
        return HookVerdict(decision=Decision(Verdict.DENY, reason), stop=stop)
    if event is HookEvent.POST_TOOL_USE:
        return HookVerdict(block=reason, stop=stop)
    if event in BLOCKABLE:
        return HookVerdict(block=reason)
    return failure(event, f"it said no, which cannot stop {event}: {reason}")


def read_late(ended: Ended, *, rewake: bool) -> HookVerdict:
    """Return what a command says that nobody waited for: texts for the model, no decision.

    With `rewake`, exit code 2 makes its words a `block`.
    """
    printed = read_printed(ended.stdout, dropped=ended.dropped)
    if rewake and ended.code == 2:
        return HookVerdict(block=ended.stderr.strip() or ended.stdout.strip() or _NO_REASON)
    if isinstance(printed, HookOutput):
        texts = (printed.specific.additional_context, printed.system_message)
        return HookVerdict(context=tuple(text for text in texts if text))
    if isinstance(printed, Malformed):
        return HookVerdict(reports=(printed.why,))
    if ended.code:
        return HookVerdict(reports=(f"failed with exit code {ended.code}",))
    return HookVerdict()


def read_printed(stdout: str, *, loose: bool = False, dropped: int = 0) -> Printed:
    """Tell an answer from plain text.

    Args:
        stdout: What was printed.
        loose: Plain text has a use here, so what begins like JSON may be text after all.
        dropped: How many bytes are missing at its end.
    """
    text = _after_async_mark(stdout.strip())
    if not text.startswith("{") or (loose and not text.endswith("}")):
        return text
    try:
        return msgspec.json.decode(text, type=HookOutput)
    except msgspec.ValidationError as error:
        return Malformed(f"the JSON is not a hook's answer: {error}")
    except msgspec.DecodeError as error:
        if _is_json_lines(text):
            return text
        cut = f"; {dropped} bytes beyond the limit were dropped" if dropped else ""
        return Malformed(f"the output looks like JSON and is not: {error}{cut}")


def read_output(event: HookEvent, output: HookOutput) -> HookVerdict:
    """Return what an answer in JSON says."""
    specific = output.specific
    if specific.hook_event_name not in ("", event):
        return failure(event, f"the answer is for {specific.hook_event_name}, not {event}")
    reports: list[str] = []
    block = None
    if output.decision == "block" and event is not HookEvent.PRE_TOOL_USE:
        if event in BLOCKABLE:
            block = output.reason or _NO_REASON
        else:
            reports.append(f"it wants to block, which {event} does not allow: {output.reason}")
    if specific.permission_decision == "defer":
        reports.append("it defers the decision, so the user is asked")
    before, after = event is HookEvent.PRE_TOOL_USE, event is HookEvent.POST_TOOL_USE
    stop = output.stop_reason or output.reason or _NO_REASON
    return HookVerdict(
        decision=_decision(output) if before else None,
        updated_input=specific.updated_input if before else None,
        updated_output=specific.updated_tool_output if after else None,
        block=block,
        stop=None if output.continue_ else stop,
        context=(specific.additional_context,) if specific.additional_context else (),
        messages=(output.system_message,) if output.system_message else (),
        reports=tuple(reports),
        suppress_output=output.suppress_output,
        worktree_path=specific.worktree_path or "",
    )


def _decision(output: HookOutput) -> Decision | None:
    specific = output.specific
    reason = specific.permission_decision_reason or output.reason or _NO_REASON
    match specific.permission_decision:
        case None:
            # The older way to say it.
            verdict = {"approve": Verdict.ALLOW, "block": Verdict.DENY}.get(output.decision or "")
            return Decision(verdict, reason) if verdict else None
        case "defer":
            return Decision(Verdict.ASK, reason)
        case said:
            return Decision(Verdict(said), reason)


def _blocked(event: HookEvent, ended: Ended, printed: Printed) -> HookVerdict:
    plain = printed if isinstance(printed, str) else ""
    words = ended.stderr.strip() or plain or _NO_REASON
    said = read_output(event, printed) if isinstance(printed, HookOutput) else HookVerdict()
    if isinstance(printed, Malformed):
        said = HookVerdict(reports=(printed.why,))
    if event is HookEvent.PRE_TOOL_USE:
        if said.decision and said.decision.verdict is Verdict.DENY:
            return said
        return msgspec.structs.replace(said, decision=Decision(Verdict.DENY, words))
    if event in BLOCKABLE:
        return msgspec.structs.replace(said, block=said.block or words)
    report = f"exit code 2 cannot stop {event}: {words}"
    return msgspec.structs.replace(said, reports=(*said.reports, report))


def _plain(event: HookEvent, text: str) -> HookVerdict:
    if not text:
        return HookVerdict()
    if event is HookEvent.WORKTREE_CREATE:
        return HookVerdict(worktree_path=text.splitlines()[-1].strip())
    return HookVerdict(context=(text,)) if event in PLAIN_CONTEXT else HookVerdict()


def _after_async_mark(text: str) -> str:
    """Leave out a first line that only says that the hook goes on in the background."""
    first, _, rest = text.partition("\n")
    if not first.startswith("{"):
        return text
    try:
        marked = msgspec.json.decode(first, type=HookOutput).async_
    except msgspec.MsgspecError:
        return text
    return rest.strip() if marked else text


def _is_json_lines(text: str) -> bool:
    """Is it a list of objects that are no answers, such as a log?"""
    try:
        lines = [msgspec.json.decode(line) for line in text.splitlines()]
    except msgspec.DecodeError:
        return False
    return all(isinstance(line, dict) and _FIELDS.isdisjoint(line) for line in lines)
