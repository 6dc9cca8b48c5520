"""`@tool`: a typed function becomes something a model can call.

The schema comes from the annotations, the descriptions from the docstring. What a model
gets wrong in its arguments goes back to it as a sentence; what the function raises is
left to the session, which reports it as a crash.
"""

import inspect
import re
from collections.abc import Callable
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import anyio.to_thread
import msgspec

from clew.core.access import Access, Risk, TargetKind
from clew.core.models import ToolSpec
from clew.tools.docstring import parse
from clew.tools.protocol import ToolContext, ToolOutput
from clew.tools.schema import inspect_signature

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class FunctionTool(Generic[P, R]):
    """A function that a model can call, and that Python can still call as before."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str,
        risk: Risk,
        target: str,
        kind: TargetKind | None,
        max_output_chars: int | None,
    ) -> None:
        docs = parse(function.__doc__)
        self._function = function
        self._shape = inspect_signature(function, docs)
        self._risk = risk
        self._target = target
        self._kind = kind or _kind(function, risk, target)
        self.spec = ToolSpec(name=name, description=docs.summary, schema=self._shape.schema)
        self.max_output_chars = max_output_chars
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self._function(*args, **kwargs)

    def access(self, arguments: dict[str, Any], place: ToolContext) -> Access:  # noqa: ARG002
        """Say what a call would touch: the value of the argument named as target."""
        return Access(
            tool=self.spec.name,
            risk=self._risk,
            target=self._target_text(arguments),
            kind=self._kind,
        )

    def _target_text(self, arguments: dict[str, Any]) -> str:
        if not self._target:
            return ""
        default = inspect.signature(self._function).parameters[self._target].default
        value = arguments.get(self._target, default)
        return "" if value is None or value is inspect.Parameter.empty else str(value)

    async def run(self, arguments: dict[str, Any], place: ToolContext) -> ToolOutput:
        """Check the arguments, call the function, and put what it returns into words.

        A plain function runs in a worker thread. Cancellation does not wait for it: it
        runs to its end with nobody listening, so long work should be `async`.
        """
        try:
            values = self._shape.read(arguments)
        except ValueError as error:
            return ToolOutput(text=f"Invalid arguments for {self.spec.name}: {error}", failed=True)
        if self._shape.place:
            values[self._shape.place] = place
        call: Callable[[], object] = partial(self._function, **values)
        if inspect.iscoroutinefunction(self._function):
            result = call()
        else:
            result = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        return _output(await result if inspect.isawaitable(result) else result)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str = "",
    risk: Risk = Risk.EXECUTE,
    target: str = "",
    kind: TargetKind | None = None,
    max_output_chars: int | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    risk: Risk = Risk.EXECUTE,
    target: str = "",
    kind: TargetKind | None = None,
    max_output_chars: int | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a typed function, sync or async.

    A parameter annotated `ToolContext` receives the place and is hidden from the model.

    Args:
        function: Given when the decorator is used bare.
        name: What the model calls it; the function's name unless given.
        risk: The worst a call can do. A function nobody classified counts as able to do
            anything, so calls are asked about.
        target: The argument that permission rules match.
        kind: What the target is. Unless given, a `Path` is a path, the target of a tool that
            may execute anything is a command line, and all else is text.
        max_output_chars: Longest text the model gets of one call.

    Raises:
        TypeError: A parameter cannot be given by a model; the message names it.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        label = name or getattr(function, "__name__", "")
        _refuse_bad_options(function, label, target)
        return FunctionTool(
            function,
            name=label,
            risk=risk,
            target=target,
            kind=kind,
            max_output_chars=max_output_chars,
        )

    return decorate if function is None else decorate(function)


def _kind(function: Callable[..., object], risk: Risk, target: str) -> TargetKind:
    if target and get_type_hints(function).get(target) is Path:
        return TargetKind.PATH
    return TargetKind.COMMAND if target and risk is Risk.EXECUTE else TargetKind.TEXT


def _refuse_bad_options(function: Callable[..., object], name: str, target: str) -> None:
    if not _NAME.fullmatch(name):
        raise TypeError(f"{name!r} cannot name a tool: give one with `name=`")
    if target and target not in inspect.signature(function).parameters:
        raise TypeError(f"{name}: there is no parameter {target!r} to be the target")


def _output(result: object) -> ToolOutput:
    match result:
        case ToolOutput():
            return result
        case str():
            return ToolOutput(text=result)
        case None:
            return ToolOutput(text="done")
        case _:
            return ToolOutput(text=msgspec.json.encode(result, enc_hook=str).decode())
