"""What version 0.1.0 wrote is still read, and still says the same.

The files are in `fixtures/0.1.0`; `write_fixtures.py.txt` tells how they were made. What version
0.1.0 itself read from them is in `expected.json`. When a test here fails, the change that made it
fail breaks what users have on disk: it needs a migration, not another expected value.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from clew import ProjectMemory, update_task_file_status
from clew.log.writer import SessionLog
from tests.compatibility import reading
from tests.compatibility.reading import EDITS, FIXTURES, NAMED, SESSIONS, Copy

pytestmark = pytest.mark.anyio

EXPECTED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "expected.json").read_text(encoding="utf-8")
)
WHOLE = [id_ for id_ in SESSIONS if id_ != "broken"]
LOGS = sorted(EXPECTED["logs"])
VARIANTS = sorted(path.stem for path in (FIXTURES / "variants").glob("*.json"))


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return reading.copied(tmp_path)


def log_named(copy: Copy, name: str) -> Path:
    return next(log for log in reading.logs(copy) if log.stem == name)


async def test_all_sessions_of_a_store_are_listed_with_all_that_was_known_of_them(
    copy: Copy,
) -> None:
    assert await reading.listed(copy) == EXPECTED["listed"]


async def test_sessions_are_found_by_their_words_and_names(copy: Copy) -> None:
    assert await reading.found(copy) == EXPECTED["found"]


async def test_an_export_gives_every_entry_as_it_was_written(copy: Copy) -> None:
    assert await reading.exported(copy) == EXPECTED["exported"]


async def test_an_exported_session_is_imported_entry_by_entry(copy: Copy) -> None:
    assert await reading.imported(copy) == EXPECTED["imported"]


@pytest.mark.parametrize("session_id", WHOLE)
async def test_an_opened_session_has_its_view_its_history_its_size_and_its_cost(
    copy: Copy, session_id: str
) -> None:
    assert await reading.opened(copy, session_id) == EXPECTED["opened"][session_id]


@pytest.mark.parametrize("session_id", WHOLE)
async def test_a_session_that_goes_on_sends_what_it_would_have_sent(
    copy: Copy, session_id: str
) -> None:
    assert await reading.continued(copy, session_id) == EXPECTED["continued"][session_id]


async def test_calls_that_a_crash_left_unanswered_get_a_failed_result(copy: Copy) -> None:
    async with reading.session_of(copy, "broken") as (session, _):
        asked, answer, *results = session.get_history()

    assert asked.text == "What is on this picture?"
    assert answer.text == "I look."
    assert [
        (result.call_id, result.failed) for message in results for result in message.results
    ] == [(call.call_id, True) for call in answer.calls]


@pytest.mark.parametrize("session_id", [NAMED, EDITS])
async def test_a_resumed_session_has_its_name_its_history_its_mode_and_its_memory_trail(
    copy: Copy, session_id: str
) -> None:
    assert await reading.resumed(copy, session_id) == EXPECTED["resumed"][session_id]


async def test_a_session_can_be_forked_and_gone_on_with(copy: Copy) -> None:
    # The settings set a budget, and nobody knows what this model costs.
    no_budget = {"budget_usd": None}
    async with copy.interactive(
        "Here.", resume_session_id=NAMED, fork_session=True, **no_budget
    ) as session:
        before = [reading.brief(message) for message in session.get_messages()]
        await session.run("Where are we?")
        after = [message.text for message in session.get_messages()][-2:]
        fork = session.get_session_id()

    assert fork not in SESSIONS
    assert before == EXPECTED["resumed"][NAMED]["view"]
    assert after == ["Where are we?", "Here."]
    assert await reading.exported(copy, [NAMED]) == {NAMED: EXPECTED["exported"][NAMED]}


@pytest.mark.parametrize("session_id", [NAMED, EDITS])
async def test_the_checkpoints_of_a_session_are_listed(copy: Copy, session_id: str) -> None:
    assert await reading.checkpoints(copy, session_id) == EXPECTED["checkpoints"][session_id]


async def test_files_are_restored_from_a_checkpoint_and_brought_back_by_an_undo(copy: Copy) -> None:
    assert await reading.restored(copy, EDITS) == EXPECTED["restored"]


async def test_a_rewind_takes_back_words_and_files(copy: Copy) -> None:
    assert await reading.rewound(copy, EDITS) == EXPECTED["rewound"]


@pytest.mark.parametrize("name", LOGS)
async def test_a_log_is_sound_and_its_requests_are_made_again_without_a_difference(
    copy: Copy, name: str
) -> None:
    told = await reading.log_checked(copy, log_named(copy, name))

    assert told == EXPECTED["logs"][name]
    assert (told["validate"][0], told["replay"][0]) == (0, 0)


async def test_an_exported_session_is_run_again_without_a_difference(copy: Copy) -> None:
    assert await copy.clew("log", "replay", copy.root / "exported.jsonl")


async def test_a_session_goes_on_with_its_log(copy: Copy) -> None:
    log = log_named(copy, "compacted")
    before = log.read_bytes()

    async with reading.session_of(copy, "compacted", SessionLog(log.parent)) as (session, _):
        await session.run("What next?")

    assert log.read_bytes().startswith(before)
    assert len(log.read_bytes()) > len(before)
    await copy.clew("log", "validate", log)


def without_status_line(told: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of settings without `statusLine`, which had no effect in 0.1.0."""
    parts: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, dict):
            parts[name] = {key: each for key, each in value.items() if "statusLine" not in key}
        elif isinstance(value, list):
            parts[name] = [each for each in value if "statusLine" not in str(each)]
        else:
            parts[name] = value
    return parts


async def test_the_settings_of_all_files_count_in_an_accepted_folder(copy: Copy) -> None:
    told = await reading.settings(copy)

    assert told["settings"]["statusLine"]["command"]
    assert without_status_line(told) == without_status_line(EXPECTED["settings"])
    assert told["accepted"]
    await copy.clew("config", "check")


async def test_the_settings_of_a_folder_that_is_accepted_no_longer_are_withheld(copy: Copy) -> None:
    await copy.clew("config", "forget")

    told = await reading.settings(copy)

    assert "statusLine" not in told["settings"]
    assert without_status_line(told) == without_status_line(EXPECTED["settings not accepted"])
    assert not told["accepted"]
    assert told["withheld"]


@pytest.mark.parametrize("name", VARIANTS)
async def test_every_way_to_write_a_setting_is_still_understood(copy: Copy, name: str) -> None:
    told = await reading.settings_of_file(copy, copy.root / "variants" / f"{name}.json")

    assert told == EXPECTED["settings of a file"][name]


async def test_the_settings_make_the_same_session(copy: Copy) -> None:
    assert await reading.settings_in_force(copy) == EXPECTED["settings in force"]


async def test_the_memory_of_a_project_is_read_and_added_to(copy: Copy) -> None:
    assert reading.remembered(copy) == EXPECTED["remembered"]

    memory = ProjectMemory(copy.project / ".clew" / "memory")
    (waiting,) = memory.pending()
    known = memory.add("The door is behind the third pillar.", topic="labyrinth")

    assert known.deduplicated
    assert memory.approve(waiting.id).status == "saved"
    assert memory.pending() == ()


async def test_the_tasks_of_a_project_are_read_and_their_status_is_written(copy: Copy) -> None:
    assert reading.tasks(copy) == EXPECTED["tasks"]

    update_task_file_status(copy.project / ".agents" / "tasks" / "door.md", "completed")

    assert reading.tasks(copy) == []


async def test_a_new_session_starts_from_what_was_learned_of_its_model(copy: Copy) -> None:
    assert await reading.calibrated(copy) == EXPECTED["calibrated"]
