"""Interprets the output of hooks, by event.

Exit code 2 blocks an event that can be blocked, whatever the hook printed. Any other exit code
counts only if the hook printed no JSON answer. Invalid JSON is reported and decides nothing.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from clew.core.json_text import decode_json
from clew.core.permissions import Decision, Verdict
from clew.hooks.protocol import HookEvent, HookVerdict

PLAIN_CONTEXT = frozenset({HookEvent.USER_PROMPT_SUBMIT, HookEvent.SESSION_START})
"""Events whose plain text output goes to the model."""
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
"""Events that a hook can block. A PreToolUse hook denies the call instead."""
_NO_REASON = "the hook gave no reason"


class ProcessResult(Struct, frozen=True):
    """The exit code and the output of a hook's command."""

    code: int
    stdout: str = ""
    stderr: str = ""
    dropped: int = 0
    """Bytes of output beyond the limit."""


class EventOutput(Struct, frozen=True, rename="camel"):
    """The event-specific part of an answer (`hookSpecificOutput`)."""

    hook_event_name: str = ""
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    permission_decision_reason: str | None = None
    updated_input: dict[str, Any] | None = None
    updated_tool_output: Any = None
    additional_context: str | None = None
    worktree_path: str | None = None


class HookOutput(Struct, frozen=True, rename="camel"):
    """The JSON answer of a hook.

    Other keys are ignored: `suppressOutput` of Claude Code too, because Clew never shows the
    standard output of a hook.
    """

    continue_: bool = field(default=True, name="continue")
    stop_reason: str | None = None
    system_message: str | None = None
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    hook_specific_output: EventOutput | None = None
    async_: bool = field(default=False, name="async")

    @property
    def specific(self) -> EventOutput:
        """The event-specific part; empty if there is none."""
        return self.hook_specific_output or EventOutput()


class MalformedOutput(Struct, frozen=True):
    """Output that looks like a JSON answer and is invalid."""

    why: str


ParsedOutput: TypeAlias = HookOutput | MalformedOutput | str
"""What a hook printed: an answer, an invalid answer, or plain text."""

_FIELDS = frozenset(HookOutput.__struct_encode_fields__)


class HookAnswer(Struct, frozen=True):
    """The answer of a model or an agent to a prompt hook."""

    ok: bool
    reason: str = ""
    impossible: bool = False
    """True if the condition of the hook can never be met; then a run may stop."""


def report_failure(event: HookEvent, why: str) -> HookVerdict:
    """Return the verdict of a failed hook: a report, and no decision."""
    if event is HookEvent.WORKTREE_CREATE:
        return HookVerdict(block=why)
    return HookVerdict(reports=(why,))


def interpret_exit(event: HookEvent, ended: ProcessResult) -> HookVerdict:
    """Interpret the result of a command."""
    loose = event in PLAIN_CONTEXT
    printed = parse_output(ended.stdout, loose=loose, dropped=ended.dropped)
    if ended.code == 2:
        return _interpret_block(event, ended, printed)
    if isinstance(printed, MalformedOutput):
        return report_failure(event, printed.why)
    unasked = event is HookEvent.WORKTREE_CREATE and ended.code
    if isinstance(printed, HookOutput) and not unasked:
        return interpret_output(event, printed)
    if ended.code:
        line = ended.stderr.strip().partition("\n")[0]
        return report_failure(event, f"failed with exit code {ended.code}" + (line and f": {line}"))
    return _plain(event, str(printed))


def interpret_body(event: HookEvent, body: str) -> HookVerdict:
    """Interpret the body of a successful HTTP response."""
    printed = parse_output(body)
    match printed:
        case HookOutput():
            return interpret_output(event, printed)
        case MalformedOutput(why):
            return report_failure(event, why)
        case "":
            return HookVerdict()
        case _:
            return report_failure(event, "the server's answer is not a JSON object")


def interpret_answer(event: HookEvent, text: str, *, ends_turn: bool) -> HookVerdict:
    """Interpret the answer of a model or an agent.

    Args:
        event: The event that the question was about.
        text: The answer, with the JSON somewhere in it.
        ends_turn: Whether a denied tool call ends the run.
    """
    start, end = text.find("{"), text.rfind("}")
    try:
        answer = decode_json(text[start : end + 1], type=HookAnswer)
    except msgspec.MsgspecError:
        return report_failure(
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
    return report_failure(event, f"the answer is no, but a hook cannot block {event}: {reason}")


def interpret_background(
    ended: ProcessResult, *, rewake: bool, rewake_message: str = ""
) -> HookVerdict:
    """Interpret the result of a background command: texts for the model, no decision.

    With `rewake`, on exit code 2 the model reads its plain output too.
    """
    printed = parse_output(ended.stdout, dropped=ended.dropped)
    if rewake and ended.code == 2:
        words = ended.stderr.strip() or ended.stdout.strip() or _NO_REASON
        return HookVerdict(context=("\n".join(filter(None, (rewake_message, words))),))
    if isinstance(printed, HookOutput):
        texts = (printed.specific.additional_context, printed.system_message)
        return HookVerdict(context=tuple(text for text in texts if text))
    if isinstance(printed, MalformedOutput):
        return HookVerdict(reports=(printed.why,))
    if ended.code:
        return HookVerdict(reports=(f"failed with exit code {ended.code}",))
    return HookVerdict()


def parse_output(stdout: str, *, loose: bool = False, dropped: int = 0) -> ParsedOutput:
    """Parse the output of a hook as JSON or plain text.

    Args:
        stdout: The output.
        loose: Plain text is meaningful here, so text that starts like JSON may be plain.
        dropped: The number of bytes missing at the end.
    """
    text = _after_async_mark(stdout.strip())
    if not text.startswith("{") or (loose and not text.endswith("}")):
        return text
    try:
        return decode_json(text, type=HookOutput)
    except msgspec.ValidationError as error:
        return MalformedOutput(f"the output is not a valid hook answer: {error}")
    except msgspec.DecodeError as error:
        if _is_json_lines(text):
            return text
        cut = f"; {dropped} bytes beyond the limit were dropped" if dropped else ""
        return MalformedOutput(f"the output looks like JSON but is invalid: {error}{cut}")


def interpret_output(event: HookEvent, output: HookOutput) -> HookVerdict:
    """Interpret a JSON answer."""
    specific = output.specific
    if specific.hook_event_name not in ("", event):
        return report_failure(event, f"the answer is for {specific.hook_event_name}, not {event}")
    reports: list[str] = []
    block = None
    if output.decision == "block" and event is not HookEvent.PRE_TOOL_USE:
        if event in BLOCKABLE:
            block = output.reason or _NO_REASON
        else:
            reports.append(f"a hook cannot block {event}: {output.reason}")
    if specific.permission_decision == "defer":
        reports.append("it defers the decision, so the session asks the user")
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
        worktree_path=specific.worktree_path or "",
    )


def _decision(output: HookOutput) -> Decision | None:
    specific = output.specific
    reason = specific.permission_decision_reason or output.reason or _NO_REASON
    match specific.permission_decision:
        case None:
            # The older form.
            verdict = {"approve": Verdict.ALLOW, "block": Verdict.DENY}.get(output.decision or "")
            return Decision(verdict, reason) if verdict else None
        case "defer":
            return Decision(Verdict.ASK, reason)
        case said:
            return Decision(Verdict(said), reason)


def _interpret_block(event: HookEvent, ended: ProcessResult, printed: ParsedOutput) -> HookVerdict:
    plain = printed if isinstance(printed, str) else ""
    words = ended.stderr.strip() or plain or _NO_REASON
    said = interpret_output(event, printed) if isinstance(printed, HookOutput) else HookVerdict()
    if isinstance(printed, MalformedOutput):
        said = HookVerdict(reports=(printed.why,))
    if event is HookEvent.PRE_TOOL_USE:
        if said.decision and said.decision.verdict is Verdict.DENY:
            return said
        return msgspec.structs.replace(said, decision=Decision(Verdict.DENY, words))
    if event in BLOCKABLE:
        return msgspec.structs.replace(said, block=said.block or words)
    report = f"exit code 2 cannot block {event}: {words}"
    return msgspec.structs.replace(said, reports=(*said.reports, report))


def _plain(event: HookEvent, text: str) -> HookVerdict:
    if not text:
        return HookVerdict()
    if event is HookEvent.WORKTREE_CREATE:
        return HookVerdict(worktree_path=text.splitlines()[-1].strip())
    return HookVerdict(context=(text,)) if event in PLAIN_CONTEXT else HookVerdict()


def _after_async_mark(text: str) -> str:
    """Remove a first line that only says that the hook continues in the background."""
    first, _, rest = text.partition("\n")
    if not first.startswith("{"):
        return text
    try:
        marked = decode_json(first, type=HookOutput).async_
    except msgspec.MsgspecError:
        return text
    return rest.strip() if marked else text


def _is_json_lines(text: str) -> bool:
    """Is this a log in JSON lines, rather than an answer?"""
    try:
        lines = [decode_json(line) for line in text.splitlines()]
    except msgspec.DecodeError:
        return False
    return all(isinstance(line, dict) and _FIELDS.isdisjoint(line) for line in lines)
