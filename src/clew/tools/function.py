"""The `@tool` decorator: turns a typed function into a tool.

The schema comes from the annotations, the descriptions from the docstring. Invalid arguments
become an error message for the model; the session reports an exception of the function as a
crash.
"""

import inspect
import re
from collections.abc import Callable
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import anyio.to_thread
import msgspec

from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk, TargetKind
from clew.tools.protocol import ToolContext, ToolOutput
from clew.tools.schema import inspect_signature, parse_docstring

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class FunctionTool(Generic[P, R]):
    """A function as a tool. Python code can still call it like the function."""

    restores_secrets: bool = False
    """True when the function itself replaces redaction marks in its arguments. Otherwise a
    session refuses calls with marks, unless the tool only reads."""
    find_failure: Callable[..., ToolOutput | None] | None = None
    """Finds out by reading alone that a call would fail. It gets the arguments of the function by
    name, and runs in a worker thread; see `RehearsesCalls`."""
    find_problem: Callable[..., str] | None = None
    """Says what is wrong with arguments of the right types, or returns an empty text. It gets the
    arguments that the model gave, by name, looks at nothing else, and runs in a worker thread; see
    `ChecksArguments`."""

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
        docs = parse_docstring(function.__doc__)
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._signature = inspect_signature(function, docs)
        self._risk = risk
        self._target = target
        self._kind = kind or _kind(function, risk, target)
        self.spec = ToolSpec(name=name, description=docs.summary, schema=self._signature.schema)
        self.max_output_chars = max_output_chars
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self._function(*args, **kwargs)

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:
        """Return the access of a call: the value of the target argument."""
        return Access(
            tool=self.spec.name,
            risk=self._risk,
            target=self._target_text(arguments),
            kind=self._kind,
            start=str(context.shell.cwd or "") if self._risk is Risk.EXECUTE else "",
            restores_secrets=self.restores_secrets,
        )

    def _target_text(self, arguments: dict[str, Any]) -> str:
        if not self._target:
            return ""
        default = inspect.signature(self._function).parameters[self._target].default
        value = arguments.get(self._target, default)
        return "" if value is None or value is inspect.Parameter.empty else str(value)

    def check(self, arguments: dict[str, Any]) -> ToolOutput | None:
        """Return the failure of a call with invalid arguments, or None."""
        try:
            values = self._signature.read(arguments)
        except ValueError as error:
            return self._reject(error)
        problem = self.find_problem(**values) if self.find_problem is not None else ""
        return ToolOutput(text=problem, failed=True) if problem else None

    def _reject(self, error: ValueError) -> ToolOutput:
        return ToolOutput(text=f"Invalid arguments for {self.spec.name}: {error}", failed=True)

    async def rehearse(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput | None:
        """Return the failure that a call would have now, or None."""
        if self.find_failure is None:
            return None
        call = partial(self.find_failure, **self._values(arguments, context))
        return await anyio.to_thread.run_sync(call)

    def _values(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        values = self._signature.read(arguments)
        if self._signature.context:
            values[self._signature.context] = context
        return values

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Validate the arguments, call the function, and convert its result to text.

        A synchronous function runs in a worker thread. Cancellation does not stop it: it runs to
        its end and its result is dropped, so long work should be `async`.
        """
        try:
            values = self._values(arguments, context)
        except ValueError as error:
            return self._reject(error)
        call: Callable[[], object] = partial(self._function, **values)
        if self._is_async:
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
    """Turn a typed function, sync or async, into a tool.

    A parameter annotated `ToolContext` receives the context and is hidden from the model.

    Args:
        function: The function, when the decorator has no arguments.
        name: The name of the tool; by default the function's name.
        risk: The worst that a call can do. By default it can do anything, so the session asks
            before calls.
        target: The argument that permission rules match.
        kind: What the target is. By default a `Path` is a path, the target of a tool with risk
            `EXECUTE` is a command line, and anything else is text.
        max_output_chars: The most characters of one call's output for the model.

    Raises:
        TypeError: A model cannot pass one of the parameters, or the function cannot be a tool; the
            message says why.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        label = name or getattr(function, "__name__", "")
        _refuse_bad_options(function, label, target)
        return FunctionTool(
            function,
            name=label,
            risk=_read_risk(risk, label),
            target=target,
            kind=kind,
            max_output_chars=max_output_chars,
        )

    return decorate if function is None else decorate(function)


def _kind(function: Callable[..., object], risk: Risk, target: str) -> TargetKind:
    if target and get_type_hints(function).get(target) is Path:
        return TargetKind.PATH
    return TargetKind.COMMAND if target and risk is Risk.EXECUTE else TargetKind.TEXT


def _read_risk(risk: Risk | str, name: str) -> Risk:
    try:
        return Risk(risk)
    except ValueError:
        known = ", ".join(Risk)
        raise TypeError(f"{name}: there is no risk {risk!r}; choose one of: {known}") from None


def _refuse_bad_options(function: Callable[..., object], name: str, target: str) -> None:
    if not _NAME.fullmatch(name):
        raise TypeError(f"{name!r} is not a valid tool name: set one with `name=`")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(
            f"{name} is a generator: a tool returns its whole result; "
            "report what it does with context.progress"
        )
    if target and target not in inspect.signature(function).parameters:
        raise TypeError(f"{name}: target={target!r} is not a parameter of the function")


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
