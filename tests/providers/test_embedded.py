import importlib.util
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from clew.core.errors import (
    ConfigError,
    ContextOverflow,
    MissingExtra,
    ModelFileDamaged,
    ProviderError,
)
from clew.core.messages import user
from clew.core.usage import Usage
from clew.providers.embedded.model_file import model_path
from clew.providers.embedded.process import LaunchOptions, choose_threads, start_server
from clew.providers.embedded.provider import Embedded
from clew.providers.protocol import (
    Chunk,
    CountsTokens,
    Finished,
    Provider,
    Request,
    TextChunk,
)

pytestmark = pytest.mark.anyio

MODEL = Path(os.environ.get("CLEW_TEST_MODEL") or model_path())
needs_package = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="the extra 'embedded' is not installed"
)
needs_model = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or not MODEL.is_file(),
    reason="needs the extra 'embedded' and the model: clew models get, or CLEW_TEST_MODEL=FILE",
)
HELLO = Request(
    model="smollm2-135m",
    system="You are a helpful guide.",
    messages=(user("Name a colour."),),
    max_output_tokens=16,
    temperature=0.0,
)


def child_that_runs(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


async def ask(provider: Provider, request: Request = HELLO) -> list[Chunk]:
    with anyio.fail_after(60):
        return [chunk async for chunk in provider.stream(request)]


def usage_of(chunks: list[Chunk]) -> Usage:
    last = chunks[-1]
    assert isinstance(last, Finished)
    assert last.usage is not None
    return last.usage


@pytest.fixture
async def model() -> AsyncIterator[Embedded]:
    provider = Embedded(MODEL)
    yield provider
    await provider.aclose()


def test_half_of_the_cores_and_at_most_four_work_for_the_model() -> None:
    assert [choose_threads(cores) for cores in (1, 2, 4, 8, 64)] == [1, 1, 2, 4, 4]


@needs_model
@pytest.mark.req("PRV-1", "PRV-2")
async def test_the_model_answers_and_remembers_the_prompt_it_read(model: Embedded) -> None:
    first = await ask(model)
    second = await ask(model)

    words = [chunk.text for chunk in first if isinstance(chunk, TextChunk)]
    assert len(words) > 1
    assert "".join(words).strip()
    assert usage_of(first).input_tokens > 10
    assert usage_of(first).output_tokens > 1
    assert usage_of(first).cache_read_tokens == 0
    assert usage_of(second).cache_read_tokens > 10


@needs_model
@pytest.mark.req("PRV-3")
async def test_closing_early_frees_the_model_for_the_next_call(model: Embedded) -> None:
    story = Request(model="m", messages=(user("Tell a very long story."),), max_output_tokens=4000)
    with anyio.fail_after(60):
        async with aclosing(model.stream(story)) as chunks:
            assert isinstance(await anext(chunks), TextChunk)

        before = anyio.current_time()
        await ask(model)

    assert anyio.current_time() - before < 5


@needs_model
@pytest.mark.req("CMP-9")
async def test_more_than_the_window_holds_is_an_overflow(model: Embedded) -> None:
    with pytest.raises(ContextOverflow, match="9031 tokens"):
        await ask(model, Request(model="m", messages=(user("word " * 9000),)))


@needs_model
async def test_tokens_of_a_text_are_counted_by_the_model_itself(model: Embedded) -> None:
    with anyio.fail_after(60):
        assert await model.tokens_of("hello world") == 2


@needs_model
async def test_a_request_is_counted_as_the_model_will_read_it(model: Embedded) -> None:
    assert isinstance(model, CountsTokens)
    with anyio.fail_after(60):
        counted = await model.count_tokens(HELLO)

    assert counted == usage_of(await ask(model)).input_tokens


@needs_model
@pytest.mark.req("PRV-8")
async def test_calls_at_once_wait_for_their_turn_and_start_one_process(model: Embedded) -> None:
    answers: list[list[Chunk]] = []

    async def collect() -> None:
        answers.append(await ask(model))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect)
        tasks.start_soon(collect)

    assert len(answers) == 2
    assert all(isinstance(answer[-1], Finished) for answer in answers)


@needs_model
async def test_a_process_that_is_killed_is_reported_and_started_anew(model: Embedded) -> None:
    story = Request(model="m", messages=(user("Tell a very long story."),), max_output_tokens=4000)
    with anyio.fail_after(60):
        chunks = model.stream(story)
        await anext(chunks)
        assert model.process_id is not None
        os.kill(model.process_id, signal.SIGKILL)
        with pytest.raises(ProviderError, match="ended with code -9"):
            async for _ in chunks:
                pass

        assert len(await ask(model)) > 1


@needs_model
async def test_requests_without_the_key_are_rejected() -> None:
    with anyio.fail_after(60):
        child = await start_server(LaunchOptions(model=MODEL), provider="embedded")
        host, port = child.address.removeprefix("http://").split(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(b"GET /v1/models HTTP/1.0\r\n\r\n")
            answer = await stream.receive()
        await child.stop()

    assert b" 401 " in answer.partition(b"\r\n")[0]


@needs_model
async def test_the_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import anyio, sys\n"
        "from pathlib import Path\n"
        "from clew.providers.embedded.process import LaunchOptions, start_server\n"
        "async def main():\n"
        "    options = LaunchOptions(model=Path(sys.argv[1]))\n"
        "    child = await start_server(options, provider='embedded')\n"
        "    print(child.address.rpartition(':')[2], flush=True)\n"
        "    await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    with anyio.fail_after(60):
        async with await anyio.open_process([*child_that_runs(code), str(MODEL)]) as parent:
            assert parent.stdout is not None
            port = int(await parent.stdout.receive())
            stream = await anyio.connect_tcp("127.0.0.1", port)
            parent.kill()
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()
            await stream.aclose()


@needs_package
async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=f"Port {port} is already in use"):
            await ask(Embedded(file, port=port))


@needs_package
@pytest.mark.parametrize("size", [0, 1000])
async def test_a_damaged_file_is_an_error(tmp_path: Path, size: int) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"x" * size)

    with pytest.raises(ModelFileDamaged, match="clew models get"):
        await ask(Embedded(file))


async def test_a_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="clew models get"):
        await ask(Embedded(tmp_path / "none.gguf"))


async def test_a_missing_package_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch()
    command = child_that_runs(
        "import sys; sys.modules['xllamacpp'] = None\n"
        "from clew.providers.embedded.server import main; main()"
    )

    with pytest.raises(MissingExtra, match=r"pip install 'clew\[embedded\]'") as caught:
        await ask(Embedded(file, command=command))

    assert caught.value.extra == "embedded"


async def test_the_last_words_of_a_process_that_dies_are_passed_on(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch()

    with pytest.raises(ProviderError, match="ended with code 1: out of memory"):
        await ask(Embedded(file, command=child_that_runs("raise SystemExit('out of memory')")))


async def test_closing_what_was_never_started_does_nothing() -> None:
    provider = Embedded(Path("none.gguf"))

    await provider.aclose()
    await provider.aclose()

    assert provider.facts("smollm2-135m").window == 8_192
    assert not provider.facts("any").calls_tools
