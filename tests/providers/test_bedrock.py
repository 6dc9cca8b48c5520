import hmac
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from botocore.credentials import Credentials

from clew.core.errors import (
    ConfigError,
    ContextOverflow,
    MissingExtra,
    ProviderBusy,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    StreamBroken,
)
from clew.core.ids import CallId
from clew.core.messages import Reasoning, ToolCall, assistant, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.bedrock import Bedrock
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import (
    Chunk,
    CountsTokens,
    Finished,
    Provider,
    ReasoningChunk,
    Request,
    RetryChunk,
    StopReason,
    TextChunk,
)
from clew.providers.retry import Retry
from clew.testing.fake_apis.converse import FakeConverseApi, event, exception
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.server import Disconnect, FakeServer, ScriptedResponse, Stall, serve

pytestmark = pytest.mark.anyio

CLAUDE = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
HELLO = Request(model=CLAUDE, messages=(user("hi"),))
VOICE = FakeConverseApi()
SECRET = "wJalrXUtnFEMI-example"
KEYS = Credentials("AKIDEXAMPLE", SECRET, "session+token/==")


@pytest.fixture(autouse=True)
def _no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the settings of this machine out, and the network of AWS machines too."""
    for name in ("REGION", "DEFAULT_REGION", "PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def says(*words: str, **fields: Any) -> ScriptedResponse:
    steps = VOICE.stream(ModelReply(words=words, **fields))
    return ScriptedResponse(steps=steps, content_type=VOICE.content_type)


def fails(status: int, message: str) -> ScriptedResponse:
    return ScriptedResponse(steps=[VOICE.error(status, message)], status=status)


def bedrock(server: FakeServer, **options: Any) -> Bedrock:
    given = {"region": "eu-west-1", "credentials": KEYS, "endpoint": server.url, **options}
    return Bedrock(**given)


async def ask(provider: Provider, request: Request = HELLO) -> list[Chunk]:
    with anyio.fail_after(60):
        try:
            return [chunk async for chunk in provider.stream(request)]
        finally:
            await provider.aclose()


def signature(path: str, headers: Mapping[str, str], body: bytes) -> str:
    """Compute a signature of version 4 as its specification says, with nothing of botocore."""
    kind, _, said = headers["Authorization"].partition(" ")
    fields = dict(field.split("=", 1) for field in said.split(", "))
    scope = fields["Credential"].partition("/")[2]
    signed = fields["SignedHeaders"]
    canonical = "\n".join(
        [
            "POST",
            quote(path, safe="/~"),
            "",
            *(f"{name}:{headers[name].strip()}" for name in signed.split(";")),
            "",
            signed,
            sha256(body).hexdigest(),
        ]
    )
    told = "\n".join([kind, headers["X-Amz-Date"], scope, sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    return hmac.digest(key, told.encode(), "sha256").hex()


@pytest.mark.req("PRV-1", "PRV-2")
async def test_an_answer_streams_in_and_ends_once() -> None:
    usage = Usage(input_tokens=50, output_tokens=2, cache_read_tokens=30, cache_write_tokens=5)
    async with serve(says("Hel", "lo", usage=usage)) as server:
        found = await ask(bedrock(server))

    assert found == [
        TextChunk("Hel"),
        TextChunk("lo"),
        Finished(reason=StopReason.DONE, usage=usage),
    ]
    assert server.paths == [f"/model/{CLAUDE}/converse-stream"]
    assert server.requests[0]["messages"][0]["role"] == "user"


@pytest.mark.parametrize(
    "model",
    [
        CLAUDE,
        "amazon.nova-pro-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-8",
    ],
)
async def test_every_request_bears_a_signature_that_verifies(model: str) -> None:
    request = Request(model=model, messages=(user("grüß dich"),))
    async with serve(says("ok")) as server:
        await ask(bedrock(server, headers={"X-Team": " blue  "}), request)

    headers = server.headers[0]
    said = headers["Authorization"]
    scope = f"AKIDEXAMPLE/{headers['X-Amz-Date'][:8]}/eu-west-1/bedrock/aws4_request"
    assert said.startswith(f"AWS4-HMAC-SHA256 Credential={scope}, ")
    assert headers["X-Amz-Security-Token"] == "session+token/=="
    assert "host;x-amz-date;x-amz-security-token;x-team" in said
    assert said.endswith(f"Signature={signature(server.paths[0], headers, server.bodies[0])}")
    assert server.paths[0].count("/") == 3


async def test_a_signature_is_made_anew_for_every_attempt() -> None:
    class Turning:
        """Credentials that change whenever they are asked for, and know where they were asked."""

        def __init__(self) -> None:
            self.threads: list[int] = []

        def get_frozen_credentials(self) -> Any:
            self.threads.append(threading.get_ident())
            return Credentials(f"AK{len(self.threads)}", SECRET).get_frozen_credentials()

    turning = Turning()
    async with serve(says("ok")) as server:
        provider = bedrock(server, credentials=turning)
        for _ in range(2):
            assert [chunk async for chunk in provider.stream(HELLO)]
        await provider.aclose()

    bearers = [headers["Authorization"].partition("Credential=")[2] for headers in server.headers]
    assert [bearer[:3] for bearer in bearers] == ["AK1", "AK2"]
    assert threading.get_ident() not in turning.threads


async def test_an_api_key_is_borne_and_nothing_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-env")
    async with serve(says("ok")) as server:
        await ask(Bedrock(api_key="bedrock-api-key-1", endpoint=server.url))
        await ask(Bedrock(endpoint=server.url))
        await ask(bedrock(server))

    said = [headers["Authorization"] for headers in server.headers]
    assert said[:2] == ["Bearer bedrock-api-key-1", "Bearer bedrock-api-key-env"]
    assert said[2].startswith("AWS4-HMAC-SHA256 ")
    assert "X-Amz-Date" not in server.headers[0]


@pytest.mark.req("PRV-2")
async def test_an_answer_in_one_piece_comes_from_the_other_path() -> None:
    call = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" : 1.0}')
    reply = ModelReply(thoughts=("hm",), signature="seal", words=("Hello",), calls=(call,))
    whole = ScriptedResponse(steps=[VOICE.whole(reply)], content_type="application/json")
    async with serve(whole) as server:
        found = await ask(bedrock(server, streaming=False))

    assembly = MessageBuilder(provenance="bedrock")
    for chunk in found:
        assembly.add(chunk)
    assert server.paths == [f"/model/{CLAUDE}/converse"]
    assert assembly.message().calls == (call,)
    assert found[0] == ReasoningChunk(index=0, text="hm", signature="seal")
    assert found[-1] == Finished(reason=StopReason.TOOL_CALLS, usage=reply.usage)


async def test_tokens_are_counted_by_the_model_wherever_it_runs() -> None:
    counted = ScriptedResponse(steps=[b'{"inputTokens":18}'], content_type="application/json")
    strange = ScriptedResponse(steps=[b"{}"], content_type="application/json")
    request = Request(
        model=CLAUDE,
        system="s",
        messages=(user("hi"),),
        max_output_tokens=9,
        options={"serviceTier": {"type": "flex"}, "additionalModelRequestFields": {"a": 1}},
    )
    async with serve(counted, fails(400, "doesn't support counting tokens."), strange) as server:
        provider = bedrock(server)
        assert isinstance(provider, CountsTokens)
        assert await provider.count_tokens(request) == 18
        with pytest.raises(ProviderRejected, match="counting"):
            await provider.count_tokens(request)
        with pytest.raises(ProviderError, match="unexpected response"):
            await provider.count_tokens(request)
        await provider.aclose()

    assert server.paths[0] == f"/model/{CLAUDE.removeprefix('us.')}/count-tokens"
    assert server.requests[0] == {
        "input": {
            "converse": {
                "system": [{"text": "s"}],
                "additionalModelRequestFields": {"a": 1},
                "messages": [{"role": "user", "content": [{"text": "hi"}]}],
            }
        }
    }


@pytest.mark.req("PRV-6")
async def test_cache_points_are_set_for_models_that_support_them_by_default() -> None:
    llama = Request(model="meta.llama3-3-70b-instruct-v1:0", messages=(user("hi"),))
    async with serve(says("ok")) as server:
        await ask(bedrock(server))
        await ask(bedrock(server), llama)
        await ask(bedrock(server, cache=False))
        await ask(bedrock(server, cache=True), llama)

    assert [b"cachePoint" in body for body in server.bodies] == [True, False, False, True]


@pytest.mark.req("RSN-2")
async def test_sealed_thinking_goes_back_to_models_that_seal_theirs() -> None:
    thought = Reasoning(text="hm", provenance="bedrock", signature="seal")
    history = (user("hi"), assistant(thought, "Hello"), user("and?"))
    async with serve(says("ok")) as server:
        for model in (CLAUDE, "us.amazon.nova-pro-v1:0"):
            await ask(bedrock(server), Request(model=model, messages=history))

    assert [b'"signature":"seal"' in body for body in server.bodies] == [True, False]


@pytest.mark.req("PRV-4")
@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "Input is too long for requested model.", ContextOverflow),
        (400, "The provided model identifier is invalid.", ProviderRejected),
        (403, "The security token included in the request is invalid.", ProviderDenied),
        (429, "Too many requests, please wait.", ProviderBusy),
    ],
)
async def test_error_responses_map_to_exceptions(
    status: int, message: str, kind: type[Exception]
) -> None:
    async with serve(fails(status, message)) as server:
        with pytest.raises(kind, match=message[:20]):
            await ask(bedrock(server, retry=Retry(attempts=1)))


async def nap(_: float) -> None:
    """Take no time."""


@pytest.mark.req("PRV-4")
async def test_an_exception_in_the_first_frame_is_tried_again_and_a_later_one_is_not() -> None:
    busy = exception("throttlingException", "Too many tokens.")
    first = ScriptedResponse(steps=[event("messageStart", role="assistant"), busy])
    later = ScriptedResponse(steps=[*VOICE.stream(ModelReply(words=("par",)))[:2], busy])
    async with serve(first, says("ok"), later) as server:
        found = await ask(bedrock(server, retry=Retry(sleep=nap)))
        with pytest.raises(StreamBroken, match="Too many tokens"):
            await ask(bedrock(server, retry=Retry(sleep=nap)))

    assert isinstance(found[0], RetryChunk)
    assert (found[1], len(server.bodies)) == (TextChunk("ok"), 3)


@pytest.mark.req("PRV-4")
async def test_a_connection_lost_in_mid_answer_is_not_asked_again() -> None:
    half = ScriptedResponse(steps=[*VOICE.stream(ModelReply(words=("par",)))[:2], Disconnect()])
    async with serve(half) as server:
        with pytest.raises(StreamBroken):
            await ask(bedrock(server))

    assert len(server.bodies) == 1


@pytest.mark.req("PRV-3")
async def test_closing_early_hangs_up_at_once() -> None:
    frames = VOICE.stream(ModelReply(words=("a", "b")))
    async with serve(ScriptedResponse(steps=[*frames[:2], Stall()])) as server:
        provider = bedrock(server)
        with anyio.fail_after(60):
            async with aclosing(provider.stream(HELLO)) as chunks:
                assert await anext(chunks) == TextChunk("a")
            await server.client_left.wait()
        await provider.aclose()


async def test_a_missing_region_is_an_error_that_says_how_to_set_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="AWS_REGION"):
        Bedrock(credentials=KEYS)

    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert "bedrock-runtime.ap-south-1.amazonaws.com'" in repr(Bedrock(credentials=KEYS))
    assert "cn-north-1.amazonaws.com.cn'" in repr(Bedrock(region="cn-north-1", api_key="k"))


async def test_missing_credentials_are_an_error_that_says_how_to_get_them() -> None:
    async with serve(says("ok")) as server:
        with pytest.raises(ConfigError, match="aws sso login"):
            await ask(Bedrock(region="us-east-1", endpoint=server.url))

    assert server.bodies == []


async def test_a_profile_brings_its_region_and_its_credentials(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = us-west-2\n", encoding="utf-8")
    (tmp_path / "credentials").write_text(
        f"[work]\naws_access_key_id = AKWORK\naws_secret_access_key = {SECRET}\n", encoding="utf-8"
    )
    async with serve(says("ok")) as server:
        await ask(Bedrock(profile="work", endpoint=server.url))

    said = server.headers[0]["Authorization"]
    assert "Credential=AKWORK/" in said
    assert "/us-west-2/bedrock/" in said
    with pytest.raises(ConfigError, match="missing"):
        Bedrock(profile="missing")
    with pytest.raises(ConfigError, match="missing"):
        await ask(Bedrock(profile="missing", region="us-east-1"))


async def test_no_secret_shows_in_what_is_printed() -> None:
    provider = Bedrock(region="us-east-1", credentials=KEYS)

    shown = f"{provider!r} {provider.transport!r} {provider.transport.endpoint!r}"

    assert SECRET not in shown
    assert "session+token" not in shown


@pytest.mark.req("CTX-5")
async def test_facts_are_found_by_the_makers_name_of_a_model() -> None:
    mine = ModelFacts(name="mine", window=9)
    provider = Bedrock(region="us-east-1", credentials=KEYS, models={"mine": mine})
    profile = "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-haiku-4-5"

    assert provider.facts("mine") == mine
    assert provider.facts(CLAUDE).window == 200_000
    assert provider.facts(CLAUDE).name == CLAUDE
    assert provider.facts(profile).known
    assert not provider.facts("acme.new-model-v1:0").known


async def test_missing_botocore_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)

    with pytest.raises(MissingExtra, match=r"pip install 'clew\[bedrock\]'") as caught:
        Bedrock(region="us-east-1")

    assert caught.value.extra == "bedrock"


@pytest.mark.slow("starts a process")
def test_botocore_is_loaded_only_when_it_is_needed() -> None:
    code = "import sys, clew.providers.bedrock; print('botocore' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert json.loads(done.stdout.strip().lower()) is False
