"""Stored sessions as a program manages them: import, list, fork, export and delete."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew import Session
from clew.core.errors import ConfigError, SessionNotFound
from clew.providers.scripted import ScriptedProvider
from clew.sdk.launch import launch
from clew.sdk.session_admin import (
    ProjectStore,
    delete_sessions,
    fork_session,
    import_file,
    list_sessions,
    load_transcript,
    project_store,
    rename_session,
    search_sessions,
)
from clew.sdk.session_spec import SessionSpec

pytestmark = [pytest.mark.anyio, pytest.mark.req("STO-3")]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[ProjectStore]:
    opened = project_store(tmp_path, {"CLEW_HOME": str(tmp_path / "clew")})
    yield opened
    await opened.store.aclose()


async def write_session(place: ProjectStore, cwd: Path, prompt: str) -> str:
    async with Session(
        ScriptedProvider(["fine"]), model="m", store=place.store, cwd=cwd
    ) as session:
        await session.run(prompt)
        return session.session_id


async def test_an_exported_session_is_imported_with_all_its_entries(
    place: ProjectStore, tmp_path: Path
) -> None:
    original = await write_session(place, tmp_path, "where is the thread?")
    exported = b"".join((await load_transcript(place, original)).export())

    imported = await import_file(place.store, "-", cwd=str(tmp_path), data=exported)

    assert imported.problems == ()
    assert imported.record.id != original
    copy = await load_transcript(place, imported.record.id)
    assert copy.entries == (await load_transcript(place, original)).entries


async def test_data_without_a_session_is_refused(place: ProjectStore, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not contain a session"):
        await import_file(place.store, "-", cwd=str(tmp_path), data=b"{}")


async def test_sessions_are_renamed_found_forked_and_deleted(
    place: ProjectStore, tmp_path: Path
) -> None:
    original = await write_session(place, tmp_path, "where is the thread?")

    renamed = await rename_session(place, original[:6], "  maze ")
    _, fork = await fork_session(place, "maze", upto=2, name="half")
    found = await search_sessions(place, "thread", limit=5)

    assert renamed.name == "maze"
    assert (fork.name, fork.entries) == ("half", 2)
    assert {hit.session.id for hit in found} == {original, fork.id}
    with pytest.raises(SessionNotFound, match="not a complete id"):
        await delete_sessions(place, ["maze"], checkpoints=tmp_path / "checkpoints")
    assert await delete_sessions(place, [original], checkpoints=tmp_path / "checkpoints") == 1
    assert [one.id for one in await list_sessions(place, limit=5)] == [fork.id]


async def test_a_launched_session_lists_the_imported_sessions_of_its_store(
    place: ProjectStore, tmp_path: Path
) -> None:
    imported = await write_session(place, tmp_path / "elsewhere", "recorded on another machine")
    environ = {"CLEW_HOME": str(tmp_path / "clew")}
    spec = SessionSpec(cwd=str(tmp_path), base_url="http://127.0.0.1:1/v1", model="m")

    async with launch(spec, environ=environ) as launched:
        others = await launched.other_sessions()

    assert [one.id for one in others] == [imported]
