"""`--resume` and `--continue`: a session keeps its provider, address, model, window and mode."""

import dataclasses
import json
import os
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec import structs

from clew import MemoryStore
from clew.config.schema import LegacySection, ProfileSection
from clew.config.settings import Settings
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import ConfigError
from clew.core.ids import EntryId, SessionId
from clew.core.messages import user
from clew.providers.protocol import Request
from clew.sdk.local_servers import LocalServer
from clew.sdk.model_choice import ModelChoice, ModelChooser
from clew.sdk.resume import choose_model
from clew.sdk.session_admin import import_file
from clew.sdk.session_spec import SessionSpec
from clew.stores.record import StoredSession
from clew.stores.transfer import export_lines
from clew.testing.fake_openai import fake_openai, text_response
from tests.forked_clew import run_clew

pytestmark = [pytest.mark.anyio, pytest.mark.req("CLI-2")]


async def clew(*arguments: str, home: Path) -> "subprocess.CompletedProcess[str]":
    folder = home / "project"
    folder.mkdir(exist_ok=True)
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "PYTHONPATH") if key in os.environ}
    env = {**kept, "HOME": str(home), "CLEW_HOME": str(home / "clew")}
    with anyio.fail_after(60):
        done = await run_clew(arguments, env=env, cwd=folder)
    return subprocess.CompletedProcess(
        arguments, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


@pytest.mark.slow("starts clew")
async def test_a_resumed_session_keeps_server_model_window_and_mode(tmp_path: Path) -> None:
    async with fake_openai(*[text_response("yes")] * 4) as server:
        first = await clew(
            *("-p", "one", "--base-url", server.url, "--model", "mystery", "--window", "9000"),
            *("--permission-mode", "plan", "--output-format", "json"),
            home=tmp_path,
        )
        session_id = json.loads(first.stdout)["session_id"]
        again = await clew("-p", "two", "--continue", "--output-format", "json", home=tmp_path)
        other = await clew("-p", "three", "--resume", session_id, "--model", "other", home=tmp_path)
        fork = await clew(
            "-p", "four", "--fork", session_id, "--output-format", "json", home=tmp_path
        )
        models = [request["model"] for request in server.requests]
    gone = await clew("-p", "five", "--resume", session_id, home=tmp_path)

    assert (other.returncode, other.stderr) == (0, other.stderr)
    assert models == ["mystery", "mystery", "other", "other"]
    assert json.loads(again.stdout)["context"]["max_tokens"] == 9_000
    assert json.loads(fork.stdout)["session_id"] != session_id
    assert "plan" in (await clew("sessions", "show", session_id, home=tmp_path)).stdout
    assert gone.returncode == 1
    assert f"session {session_id} used openai_chat/other" in gone.stderr
    assert f"clew --resume {session_id} --model NAME" in gone.stderr


@pytest.mark.slow("starts clew")
async def test_a_first_prompt_starts_a_session_and_the_sandbox_is_explained_once(
    tmp_path: Path,
) -> None:
    async with fake_openai(text_response("A thread."), text_response("Red.")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o", "--sandbox", "off")
        first = await clew("What is a clew?", *flags, home=tmp_path)
        second = await clew("--continue", "--sandbox", "off", "Which colour?", home=tmp_path)

        sent = [request["messages"][-1]["content"] for request in server.requests]
        assert sent == ["What is a clew?", "Which colour?"]
    assert (first.returncode, second.returncode) == (0, 0)
    assert "A thread." in first.stdout
    assert "Commands run without a sandbox" in first.stdout
    assert "Red." in second.stdout
    assert "without a sandbox" not in second.stdout
    assert "#" not in second.stdout


@pytest.mark.slow("starts clew")
async def test_resume_without_an_id_cannot_choose_in_print_mode(tmp_path: Path) -> None:
    done = await clew("-p", "hi", "--resume", home=tmp_path)

    assert done.returncode == 2
    assert "--resume needs the id of a session" in done.stderr


def record(model: str = "", **saved: Any) -> StoredSession:
    extra: dict[str, object] = {"model_choice": {"model": model, **saved}} if saved else {}
    return StoredSession(
        id=SessionId("abc"), cwd="/", created_at=0, updated_at=0, model=model, extra=extra
    )


def record_of(choice: ModelChoice) -> StoredSession:
    assert choice.saved is not None
    extra: dict[str, object] = {"model_choice": msgspec.to_builtins(choice.saved)}
    return structs.replace(record(choice.model), extra=extra)


def spec(**flags: Any) -> SessionSpec:
    return SessionSpec(cwd="/", **flags)


async def nothing_local() -> LocalServer | None:
    return None


async def choose(
    asked: SessionSpec,
    stored: StoredSession,
    environ: dict[str, str] | None = None,
    settings: Settings | None = None,
) -> ModelChoice:
    chooser = ModelChooser(settings or Settings(), environ or {})
    choice = await choose_model(asked, stored, chooser, nothing_local)
    await choice.provider.aclose()
    return choice


async def test_a_missing_key_is_explained() -> None:
    stored = record("claude-opus-4-6", provider="anthropic")

    with pytest.raises(ConfigError, match=r"set ANTHROPIC_API_KEY.*clew --resume abc --model NAME"):
        await choose(spec(resume="abc"), stored)


async def test_a_profile_that_is_gone_is_explained() -> None:
    with pytest.raises(ConfigError, match=r"used work/m, .* no provider 'work'"):
        await choose(spec(resume="abc"), record("m", provider="work"))


async def test_a_profile_of_the_settings_is_used_again() -> None:
    there = {"work": ProfileSection(type="deepseek", api_key="k" * 9, model="deepseek-chat")}
    stored = record("deepseek-reasoner", provider="work")

    choice = await choose(spec(resume="abc"), stored, settings=Settings(providers=there))

    assert (choice.model, choice.why) == (
        "deepseek-reasoner",
        "the provider work of the settings",
    )


@pytest.mark.parametrize("current", ["", "work"])
@pytest.mark.parametrize("asked", ["", "gateway-model"])
async def test_the_single_provider_of_older_settings_is_used_again(
    asked: str, current: str
) -> None:
    gateway = LegacySection(name="openai_chat", base_url="https://gateway.example/v1")
    other = {"work": ProfileSection(type="deepseek", api_key="k" * 9)}
    settings = Settings(provider=gateway, providers=other, model="claude-sonnet-4-6")
    keys = {"ANTHROPIC_API_KEY": "k"}
    first = await ModelChooser(settings, keys).choose_first(spec(), nothing_local)
    await first.provider.aclose()
    stored = record_of(first)

    now = dataclasses.replace(settings, current_provider=current)
    choice = await choose(spec(resume="abc", model=asked), stored, keys, now)

    assert (choice.provider.name, choice.model) == ("openai_chat", asked or "claude-sonnet-4-6")
    assert choice.why == "the provider openai_chat of the settings"


async def test_a_model_is_found_by_its_name_when_the_single_provider_is_gone() -> None:
    stored = structs.replace(record(), extra={"model_choice": {"model": "claude-sonnet-4-6"}})

    choice = await choose(spec(resume="abc"), stored, {"ANTHROPIC_API_KEY": "k"})

    assert (choice.provider.name, choice.model) == ("anthropic", "claude-sonnet-4-6")


async def call(choice: ModelChoice) -> None:
    with anyio.fail_after(60):
        async for _ in choice.provider.stream(Request(model=choice.model, messages=(user("hi"),))):
            pass
    await choice.provider.aclose()


@pytest.mark.parametrize("old", ["", "http://user:old@127.0.0.1:9/v1"])
async def test_an_address_of_the_environment_is_read_again_with_its_password(old: str) -> None:
    async with fake_openai(text_response("yes")) as server:
        now = server.url.replace("://", "://user:pw@")
        chooser = ModelChooser(Settings(), {"OPENAI_BASE_URL": old or now})
        first = await chooser.choose_first(spec(), nothing_local)
        await first.provider.aclose()

        chooser = ModelChooser(Settings(), {"OPENAI_BASE_URL": now})
        again = await choose_model(spec(resume="abc"), record_of(first), chooser, nothing_local)
        await call(again)

        assert server.headers[0]["Authorization"] == f"Basic {b64encode(b'user:pw').decode()}"
    for choice in (first, again):
        assert "user" not in choice.why
        assert "user" not in repr(choice.saved)


async def test_an_address_of_the_environment_is_kept_when_its_variable_is_gone() -> None:
    keys = {"OPENAI_API_KEY": "k"}
    async with fake_openai(text_response("yes")) as server:
        chooser = ModelChooser(Settings(), {**keys, "OPENAI_BASE_URL": server.url})
        first = await chooser.choose_first(spec(), nothing_local)
        await first.provider.aclose()
        chooser = ModelChooser(Settings(), keys)
        again = await choose_model(spec(resume="abc"), record_of(first), chooser, nothing_local)
        await call(again)

        assert len(server.requests) == 1
        assert again.saved == first.saved


async def test_an_address_that_a_flag_named_counts_before_the_environment() -> None:
    async with fake_openai(text_response("yes")) as server:
        environ = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
        chooser = ModelChooser(Settings(), environ)
        asked = spec(base_url=server.url, model="m")
        first = await chooser.choose_first(asked, nothing_local)
        await first.provider.aclose()
        again = await choose_model(spec(resume="abc"), record_of(first), chooser, nothing_local)
        await call(again)

        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("flags", "provider", "model"),
    [
        ({}, "anthropic", "claude-opus-4-6"),
        ({"model": "claude-haiku-4-5"}, "anthropic", "claude-haiku-4-5"),
        ({"model": "gpt-5-mini"}, "openai", "gpt-5-mini"),
        ({"model": "unheard-of"}, "anthropic", "unheard-of"),
        ({"model": "work/riddle"}, "deepseek", "riddle"),
        ({"provider": "openai"}, "openai", "gpt-5-mini"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "openai_chat", "claude-opus-4-6"),
    ],
)
async def test_flags_count_before_what_the_session_used(
    flags: dict[str, str], provider: str, model: str
) -> None:
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    stored = record("claude-opus-4-6", provider="anthropic", window=5_000)

    there = {"work": ProfileSection(type="deepseek", api_key="k" * 9)}
    choice = await choose(spec(resume="abc", **flags), stored, keys, Settings(providers=there))

    assert (choice.provider.name, choice.model) == (provider, model)
    assert choice.window == (5_000 if model == "claude-opus-4-6" else None)


async def test_an_imported_session_continues_with_its_model_or_says_why_not() -> None:
    stored = record("claude-opus-4-6")

    kept = await choose(spec(resume="abc"), stored, {"ANTHROPIC_API_KEY": "k"})
    changed = await choose(spec(resume="abc"), stored, {"OPENAI_API_KEY": "k"})

    assert (kept.model, kept.warning) == ("claude-opus-4-6", "")
    assert changed.model == "gpt-5-mini"
    assert "this session used claude-opus-4-6" in changed.warning


async def test_an_imported_file_does_not_choose_who_gets_the_key(tmp_path: Path) -> None:
    store, evil = MemoryStore(), record("gpt-5", provider="openai", base_url="https://evil.example")
    entry = Entry(id=EntryId(1), at=1.0, body=MessageAdded(message=user("hello")))
    file = tmp_path / "session.jsonl"
    file.write_bytes(b"".join(export_lines(evil, [entry])))

    imported = await import_file(store, str(file), cwd=str(tmp_path))

    assert "model_choice" not in imported.record.extra
    choice = await choose(spec(resume="abc"), imported.record, {"OPENAI_API_KEY": "k"})
    assert choice.saved is not None
    assert choice.saved.base_url == ""
