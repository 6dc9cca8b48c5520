"""`@tool`: from a typed function to a tool."""

import enum
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional

import anyio
import msgspec
import pytest

from clew.core.permissions import Risk
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-1")]
HERE = ToolContext(cwd=Path("/"))


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    """A place on a plane."""

    x: int
    y: int = 0


@dataclass
class Box:
    corner: Point


class Tree(msgspec.Struct):
    children: list["Tree"] = []


@tool
def greet(name: str, times: int = 1) -> str:
    """Greet somebody,
    perhaps often.

    More that the model does not see.

    Args:
        name: Who is
            greeted.
        times (int): How often.

    Returns:
        The greeting.
    """
    return "hello " * times + name


async def answer(made: Tool, **arguments: Any) -> ToolOutput:
    return await made.run(arguments, HERE)


async def test_the_spec_comes_from_annotations_and_docstring() -> None:
    assert greet.spec.name == "greet"
    assert greet.spec.description == "Greet somebody, perhaps often."
    assert greet.spec.schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who is greeted."},
            "times": {"type": "integer", "description": "How often.", "default": 1},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


async def test_the_decorated_function_can_still_be_called() -> None:
    assert greet("you", times=2) == "hello hello you"
    assert greet.__name__ == "greet"  # type: ignore[attr-defined]


async def test_a_function_without_a_declared_risk_may_do_anything() -> None:
    access = greet.access({"name": "x"}, HERE)

    assert (access.tool, access.risk, access.target) == ("greet", Risk.EXECUTE, "")


async def test_the_target_is_the_argument_that_rules_match() -> None:
    @tool(name="Open", risk=Risk.INSPECT, target="path", max_output_chars=9)
    def open_it(path: Path = Path("here")) -> str:
        return f"{type(path).__name__.removeprefix('Posix')} {path}"

    access = open_it.access({"path": "a/b"}, HERE)

    assert (access.tool, access.target, access.kind) == ("Open", "a/b", "path")
    assert open_it.access({}, HERE).target == "here"
    assert open_it.access({"path": ["odd"]}, HERE).target == "['odd']"
    assert open_it.max_output_chars == 9
    assert (await answer(open_it, path="a/b")).text == "Path a/b"
    assert (await answer(open_it, path=3)).failed


async def test_nested_types_are_written_out_where_they_are_used() -> None:
    @tool
    def draw(
        box: Box,
        colour: Colour,
        kind: Literal["a", "b"],
        *,
        names: list[str],
        sizes: dict[str, float],
        note: Optional[str] = None,  # noqa: UP045
    ) -> str:
        return f"{box.corner.x} {colour.value} {kind} {names} {sizes} {note}"

    text = msgspec.json.encode(draw.spec.schema).decode()
    out = await answer(
        draw, box={"corner": {"x": 3}}, colour="red", kind="a", names=["n"], sizes={"s": 1}
    )

    assert "$ref" not in text
    assert '"enum":["blue","red"]' in text
    assert out.text == "3 red a ['n'] {'s': 1.0} None"


async def test_only_a_type_that_contains_itself_keeps_a_reference() -> None:
    @tool
    def plant(tree: Tree) -> int:
        return len(tree.children)

    definitions = plant.spec.schema["$defs"]

    assert isinstance(definitions, dict)
    assert list(definitions) == ["Tree"]
    assert (await answer(plant, tree={"children": [{}, {}]})).text == "2"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "`name` is required"),
        ({"name": 1}, "`name`: expected `str`, got `int`"),
        ({"name": "a", "times": "many"}, "`times`: expected `int`, got `str`"),
        ({"name": "a", "who": 1}, "`who` is not known. Expected: name (string), times (integer"),
    ],
)
async def test_wrong_arguments_become_a_sentence(arguments: dict[str, Any], said: str) -> None:
    out = await greet.run(arguments, HERE)

    assert out.failed
    assert out.text.startswith("Invalid arguments for greet: ")
    assert said in out.text


async def test_a_wrong_argument_deep_inside_is_named_with_its_path() -> None:
    @tool
    def draw(box: Box) -> None: ...

    assert "`box.corner.x`: expected `int`" in (await answer(draw, box={"corner": {"x": "?"}})).text
    assert "`x` of `box.corner` is required" in (await answer(draw, box={"corner": {}})).text


async def test_a_number_in_quotes_is_taken_for_a_number() -> None:
    assert (await answer(greet, name="x", times="2")).text == "hello hello x"


async def test_what_is_returned_is_put_into_words() -> None:
    @tool
    def give(what: str) -> object:
        made = ToolOutput(text="t", failed=True)
        return {"none": None, "list": [1, Path("a")], "point": Point(1), "out": made}[what]

    assert (await answer(give, what="none")).text == "done"
    assert (await answer(give, what="list")).text == '[1,"a"]'
    assert (await answer(give, what="point")).text == '{"x":1,"y":0}'
    assert (await answer(give, what="out")) == ToolOutput(text="t", failed=True)


async def test_the_context_comes_from_the_session_and_not_from_the_model() -> None:
    @tool
    async def where(context: ToolContext) -> str:
        return str(context.cwd)

    assert where.spec.schema["properties"] == {}
    assert (await answer(where)).text == "/"
    assert "`context` is not known" in (await answer(where, context="x")).text


async def test_a_plain_function_runs_in_a_worker_thread() -> None:
    @tool
    def thread() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await answer(thread)).text == "false"


async def test_cancellation_does_not_wait_for_a_thread() -> None:
    started, release = anyio.Event(), threading.Event()

    @tool
    def wait() -> None:
        anyio.from_thread.run_sync(started.set)
        release.wait(20)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(wait.run, {}, HERE)
            await started.wait()
            group.cancel_scope.cancel()

    release.set()


async def test_a_default_that_can_change_is_not_shared_between_calls() -> None:
    @tool
    def grow(items: list[int] = [1]) -> int:  # noqa: B006
        items.append(2)
        return len(items)

    assert [(await answer(grow)).text, (await answer(grow)).text] == ["2", "2"]


async def test_parameters_that_a_model_cannot_give_are_refused_by_name() -> None:
    def bare(text) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
    def many(*items: int) -> None: ...
    def named(**options: int) -> None: ...
    def by_place(one: int, /) -> None: ...
    def strange(lock: threading.Thread) -> None: ...

    for function, name in (
        (bare, "text"),
        (many, "items"),
        (named, "options"),
        (by_place, "one"),
        (strange, "lock"),
    ):
        with pytest.raises(TypeError, match=f"'{name}'"):
            tool(function)
    with pytest.raises(TypeError, match="'nothing'"):
        tool(target="nothing")(strange)
    with pytest.raises(TypeError, match="lambda"):
        tool(lambda: None)
