"""Project memory: what is kept, what waits, what is left out, and who hears of it."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError, StoreDamaged, StoreUnavailable
from clew.extensions.memory import (
    Fact,
    MemoryEvent,
    MemoryPolicyEvaluator,
    MemoryReference,
    ProjectMemory,
    ProjectMemoryStore,
)
from clew.extensions.memory.facts import parse_topic
from clew.extensions.memory.store import MAX_BYTES, MAX_LINES, truncate_index
from clew.extensions.private_files import lock_folder
from tests.rows import each_row

pytestmark = pytest.mark.req("MEM-1")

NOON = 1_700_000_000.0  # 2023-11-14
CARD = "4111 1111 1111 1111"


class Memory:
    """A memory in a project of its own, and the events it told."""

    def __init__(self, project: Path) -> None:
        self.folder = project / ".clew" / "memory"
        self.events: list[MemoryEvent] = []
        self.it = ProjectMemory(self.folder, clock=lambda: NOON, on_event=self.events.append)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def file(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def write(self, name: str, data: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def everything(self) -> dict[str, bytes]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "project")


def fresh(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return Memory(tmp_path_factory.mktemp("project"))


# Adding


def test_a_fact_goes_into_its_topic_and_into_the_index(memory: Memory) -> None:
    outcome = memory.it.add("Tests run with\n\tmake test.", topic="Build System", kind="feedback")

    line = "- [2023-11-14] (feedback/build-system) Tests run with make test.\n"
    assert (outcome.status, outcome.topic, outcome.deduplicated) == ("saved", "build-system", False)
    assert memory.file("topics/build-system.md") == f"# build-system\n\n{line}"
    assert memory.file("MEMORY.md") == f"# Project memory\n\n{line}"
    assert memory.it.startup() == f"# Project memory\n\n{line.rstrip()}"
    assert memory.it.show("build-system") == f"# build-system\n\n{line}"


def test_the_same_fact_is_kept_once_also_in_other_spacing_and_case(memory: Memory) -> None:
    memory.it.add("Use tabs, never spaces", topic="style")
    before = memory.everything()

    again = memory.it.add("  use TABS,   never\nspaces. ", topic="style", kind="user")

    assert again.status == "saved"
    assert again.deduplicated
    assert memory.everything() == before


def test_a_fact_that_somebody_wrote_by_hand_is_known(memory: Memory) -> None:
    memory.write("topics/style.md", "# Style\n\n* Use tabs\n")
    memory.write("MEMORY.md", "Use tabs\n")

    assert memory.it.add("use tabs", topic="style").deduplicated
    assert memory.file("topics/style.md") == "# Style\n\n* Use tabs\n"


def test_one_fact_may_belong_to_two_topics(memory: Memory) -> None:
    assert not memory.it.add("Ask Ann", topic="people").deduplicated
    assert not memory.it.add("Ask Ann", topic="deploy").deduplicated
    assert memory.file("MEMORY.md").count("Ask Ann") == 2


def test_what_is_missing_from_the_index_is_written_there_again(memory: Memory) -> None:
    memory.it.add("Use tabs", topic="style")
    (memory.folder / "MEMORY.md").unlink()

    assert memory.it.add("Use tabs", topic="style").deduplicated
    assert "Use tabs" in memory.file("MEMORY.md")


def test_what_is_in_a_file_stays_byte_for_byte(memory: Memory) -> None:
    odd = b"\xef\xbb\xbf# Mine\r\n\r\nbad \xff byte, no last line end"
    memory.write("topics/style.md", odd)

    memory.it.add("Use tabs", topic="style")

    after = (memory.folder / "topics/style.md").read_bytes()
    assert after == odd + b"\r\n- [2023-11-14] (project/style) Use tabs\r\n"
    assert "bad \\xff byte" in memory.it.show("style")


def test_files_and_folders_are_for_their_owner_and_a_chosen_mode_is_kept(memory: Memory) -> None:
    memory.write("MEMORY.md", "").chmod(0o644)

    memory.it.add("Use tabs", topic="style")
    memory.it.propose("Use blanks", topic="style")

    def mode(name: str) -> int:
        return stat.S_IMODE((memory.folder / name).stat().st_mode)

    assert mode("topics") == 0o700
    assert mode("topics/style.md") == 0o600
    assert mode("pending.json") == 0o600
    assert mode("MEMORY.md") == 0o644


def test_a_kind_that_is_none_is_refused_with_those_there_are(memory: Memory) -> None:
    with pytest.raises(ConfigError, match="user, feedback, project, reference"):
        memory.it.add("x", topic="t", kind="opinion")


def test_a_fact_must_say_something_and_not_too_much(memory: Memory) -> None:
    empty, long = memory.it.add(" \n", topic="t"), memory.it.add("x" * 2_001, topic="t")

    assert (empty.status, long.status) == ("skipped", "skipped")
    assert "2,000 characters" in long.why
    assert memory.everything() == {}


facts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(text=facts, topic=st.sampled_from(["a", "b"]))
def test_adding_twice_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, text: str, topic: str
) -> None:
    memory = fresh(tmp_path_factory)
    first = memory.it.add(text, topic=topic)
    before = memory.everything()

    again = memory.it.add(
        text.upper() if text.upper().lower() == text.lower() else text, topic=topic
    )

    assert again.status == first.status
    assert again.deduplicated == (first.status == "saved")
    assert memory.everything() == before


# What must not be kept


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("the api key is sk-ant-api03-" + "aB3" * 30, "aB3"),
        ("the password for the router is hunter2", "hunter2"),
        ("DB_PASSWORD=tr0ub4dor", "tr0ub4dor"),
        (f"pay with {CARD}", "1111"),
        ("pay with ４１１１１１１１１１１１１１１１", "１１１１"),
        ("her SSN is 123-45-6789", "6789"),
        ("주민등록번호는 900101-1234568", "1234568"),
    ],
)
def test_secrets_are_skipped_and_not_repeated(memory: Memory, text: str, secret: str) -> None:
    outcomes = [memory.it.add(text, topic="t"), memory.it.propose(text, topic="t")]
    outcomes += memory.it.capture(f"Remember that {text}")

    assert {outcome.status for outcome in outcomes} == {"skipped"}
    assert all("secret or personal" in outcome.why for outcome in outcomes)
    assert secret not in repr(outcomes) + repr(memory.events)
    assert memory.everything() == {}
    assert memory.it.pending() == ()


def test_a_secret_is_no_name_for_a_topic_and_is_not_repeated(memory: Memory) -> None:
    token = "ghp_" + "a1B2" * 9

    with pytest.raises(ConfigError) as caught:
        memory.it.add("x", topic=token)

    assert token not in str(caught.value)


# Topics


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "..", "/etc/passwd", "a/b", "a\\b", ".hidden", "a..b", "．．／x", "a\0b", "a\nb"),
        *(
            "a\u202eb",
            "a\u200bb",
            "\u3164",
            "\u115f",
            "e\u0301\u0301x\u20dd",
            "x" * 61,
            "~",
            "-",
            "_",
        ),
    ],
)
def test_what_is_no_name_is_refused(memory: Memory, name: str) -> None:
    for act in (memory.it.show, lambda n: memory.it.add("x", topic=n)):
        with pytest.raises(ConfigError, match="letters, digits"):
            act(name)
    assert memory.everything() == {}


@each_row(
    ("name", "topic"),
    [
        *(("Build System", "build-system"), ("node.js", "node.js"), ("style.md", "style")),
        *(("빌드", "빌드"), ("", "general"), ("Straße", "strasse"), ("ＡＢ", "ab")),
    ],
)
def test_names_are_brought_into_one_form(name: str, topic: str) -> None:
    assert parse_topic(name) == topic


@given(name=st.text(max_size=80) | st.text(alphabet="./\\~-_ab0 \0\n·．／", max_size=20))
def test_no_name_leads_outside(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    memory = fresh(tmp_path_factory)
    try:
        outcome = memory.it.add("a fact", topic=name)
    except ConfigError:
        assert not memory.folder.exists()
        return

    project = memory.folder.parent.parent
    files = {path.relative_to(memory.folder).as_posix() for path in project.rglob("*.md")}
    assert files == {"MEMORY.md", f"topics/{outcome.topic}.md"}
    assert parse_topic(outcome.topic) == outcome.topic
    assert memory.it.show(outcome.topic) == memory.it.show(name if name.strip() else "general")


def test_topics_are_listed_and_odd_files_with_their_problem(memory: Memory, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("- private\n", encoding="utf-8")
    memory.it.add("one", topic="a")
    memory.it.add("two", topic="a")
    memory.write("topics/API Notes.md", "* three\n")
    memory.write("topics/big.md", b"x" * (1024 * 1024 + 1))
    memory.write("topics/we+ird.md", "")
    memory.write("topics/notes.txt", "no topic")
    (memory.folder / "topics/link.md").symlink_to(outside)
    (memory.folder / "topics/loop.md").symlink_to("loop.md")
    os.mkfifo(memory.folder / "topics/pipe.md")

    topics = {topic.name: topic for topic in memory.it.topics()}

    assert set(topics) == {"a", "api-notes", "big", "we+ird", "link", "loop", "pipe"}
    assert (topics["a"].facts, topics["api-notes"].facts) == (2, 1)
    assert "leads out of" in topics["link"].problem
    assert "larger than" in topics["big"].problem
    assert "not a regular file" in topics["pipe"].problem
    assert len(memory.it.problems()) == 5
    assert memory.it.show("API notes") == "* three\n"
    with pytest.raises(ConfigError, match="leads out of"):
        memory.it.add("x", topic="link")
    assert outside.read_text(encoding="utf-8") == "- private\n"
    assert memory.it.find("private three") == memory.it.list_used()[-1:]


def test_a_folder_that_leads_out_of_the_project_is_not_used(tmp_path: Path) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    (outside / "MEMORY.md").write_text("private", encoding="utf-8")
    (project / ".clew").mkdir(parents=True)
    (project / ".clew" / "memory").symlink_to(outside)
    memory = Memory(project)

    assert memory.it.startup() == ""
    assert any("leads out of" in problem for problem in memory.it.problems())
    for act in (memory.it.topics, memory.it.pending, lambda: memory.it.add("x", topic="t")):
        with pytest.raises(ConfigError, match="leads out of"):
            act()
    assert sorted(path.name for path in outside.iterdir()) == ["MEMORY.md"]


def test_a_topic_that_is_not_there_is_an_error_that_names_the_others(memory: Memory) -> None:
    memory.it.add("x", topic="style")

    with pytest.raises(ConfigError, match=r"no topic `build`. Topics: style"):
        memory.it.show("build")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".clew").write_text("a file", encoding="utf-8")

    with pytest.raises(StoreUnavailable):
        Memory(tmp_path).it.add("x", topic="t")


# The beginning of a session


def test_only_the_first_200_lines_are_shown_and_a_last_line_says_so(memory: Memory) -> None:
    memory.write("MEMORY.md", "".join(f"line {n}\n" for n in range(1, 302)))

    lines = memory.it.startup().split("\n")

    assert lines[:200] == [f"line {n}" for n in range(1, 201)]
    assert lines[200:] == ["[MEMORY.md is truncated: 200 lines shown]"]


def test_200_lines_are_shown_whole(memory: Memory) -> None:
    memory.write("MEMORY.md", "".join(f"line {n}\r\n" for n in range(200)))

    assert memory.it.startup().split("\n") == [f"line {n}" for n in range(200)]


def test_25_kilobytes_are_cut_after_a_line_and_one_line_after_a_character(memory: Memory) -> None:
    memory.write("MEMORY.md", "ä" * 999 + "\n" + "ö" * 30_000 + "\nlast\n")
    assert memory.it.startup().split("\n")[:-1] == ["ä" * 999]

    memory.write("MEMORY.md", "a" + "ö" * 3_000_000)
    first, note = memory.it.startup().split("\n")
    assert set(first[1:]) == {"ö"}
    assert "is truncated" in note
    assert MAX_BYTES - 200 < len(memory.it.startup().encode()) <= MAX_BYTES


def test_what_just_fits_is_shown_whole(memory: Memory) -> None:
    line = "ö" * 127 + "\n"  # 255 bytes

    memory.write("MEMORY.md", line * 100 + "x" * 100)
    assert memory.it.startup() == line * 100 + "x" * 100
    memory.write("MEMORY.md", line * 100 + "x" * 101)
    assert "is truncated" in memory.it.startup()


def test_bad_bytes_in_the_index_are_shown(memory: Memory) -> None:
    memory.write("MEMORY.md", b"\xef\xbb\xbfgood \xff\xfe bad\n")

    assert memory.it.startup() == "good \\xff\\xfe bad"


def test_nothing_is_shown_of_nothing_and_nothing_is_made(memory: Memory) -> None:
    assert (memory.it.startup(), memory.it.show(), memory.it.topics()) == ("", "", ())
    assert (memory.it.pending(), memory.it.problems(), memory.it.find("x y z")) == ((), (), ())
    assert not memory.folder.exists()


texts = st.text(max_size=300) | st.binary(max_size=300).map(lambda b: b.decode("latin-1"))


@given(pieces=st.lists(texts, max_size=4), times=st.integers(1, 300), end=st.sampled_from("\n\r "))
def test_the_cap_holds_for_any_text_and_no_character_is_split(
    pieces: list[str], times: int, end: str
) -> None:
    text = (end.join(pieces) + end) * times
    text = text.encode("utf-8", "ignore").decode()
    plain = text.replace("\r\n", "\n").replace("\r", "\n")

    shown = truncate_index(text)

    assert len(shown.encode()) <= MAX_BYTES
    assert shown.count("\n") <= MAX_LINES
    body, _, note = shown.rpartition("\n")
    is_cut = note.startswith("[MEMORY.md is truncated")
    assert plain.startswith(body if is_cut else shown)
    assert is_cut or plain.rstrip("\n") == shown


@given(data=st.binary(max_size=200), times=st.integers(1, 400))
def test_the_cap_holds_for_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, times: int
) -> None:
    memory = fresh(tmp_path_factory)
    memory.write("MEMORY.md", data * times)

    shown = memory.it.startup()

    assert len(shown.encode()) <= MAX_BYTES
    assert shown.count("\n") <= MAX_LINES


# Waiting for approval


def test_a_proposal_waits_and_is_approved_once(memory: Memory) -> None:
    queued = memory.it.propose("Use tabs", topic="style", kind="user", source="s1")
    assert memory.it.startup() == ""
    waiting = memory.it.pending()[0]
    assert (waiting.text, waiting.kind, waiting.source, waiting.at) == (
        "Use tabs",
        "user",
        "s1",
        NOON,
    )

    approved = memory.it.approve(queued.id)

    assert (approved.status, approved.text, approved.deduplicated) == ("saved", "Use tabs", False)
    assert memory.it.pending() == ()
    assert "(user/style) Use tabs" in memory.it.startup()
    for act in (memory.it.approve, memory.it.reject):
        with pytest.raises(ConfigError, match="already"):
            act(queued.id)
    assert memory.file("MEMORY.md").count("Use tabs") == 1


def test_a_rejected_proposal_is_gone(memory: Memory) -> None:
    queued = memory.it.propose("Use tabs", topic="style")

    assert memory.it.reject(queued.id).status == "rejected"
    assert memory.it.pending() == ()
    assert not (memory.folder / "MEMORY.md").exists()
    with pytest.raises(ConfigError, match="already"):
        memory.it.approve(queued.id)


def test_a_proposal_waits_once_and_what_is_known_does_not_wait(memory: Memory) -> None:
    first = memory.it.propose("Use tabs", topic="style")
    again = memory.it.propose("USE  tabs.", topic="style")
    assert (again.id, again.deduplicated) == (first.id, True)
    assert len(memory.it.pending()) == 1

    memory.it.add("Ask Ann", topic="people")
    known = memory.it.propose("ask ann", topic="people")
    assert (known.status, known.deduplicated) == ("saved", True)
    assert len(memory.it.pending()) == 1


@pytest.mark.parametrize(
    "content",
    [
        b'{"version": 1, "records": [{"id": "mem_1", "te',
        b"[]",
        b"\xff\xfe",
        b'{"version": 2, "records": []}',
        b'{"version": 1, "records": [{"id": "a", "text": "x", "topic": "t", "mine": 1}]}',
        b'{"version": 1, "records": [%s, %s]}' % ((b'{"id": "a", "text": "x", "topic": "t"}',) * 2),
    ],
)
def test_a_damaged_list_is_an_error_and_is_left_as_it_is(memory: Memory, content: bytes) -> None:
    path = memory.write("pending.json", content)

    for act in (
        memory.it.pending,
        lambda: memory.it.propose("Use tabs", topic="t"),
        lambda: memory.it.approve("mem_1"),
        lambda: memory.it.reject("mem_1"),
    ):
        with pytest.raises(StoreDamaged, match=r"pending\.json.*repair it, or remove it"):
            act()
    assert path.read_bytes() == content
    assert len(memory.it.problems()) == 1
    assert memory.it.add("Use tabs", topic="t").status == "saved"


def test_a_secret_put_into_the_list_by_hand_is_not_approved(memory: Memory) -> None:
    record = {"id": "mem_1", "text": f"pay with {CARD}", "topic": "t"}
    memory.write("pending.json", json.dumps({"version": 1, "records": [record]}))

    outcome = memory.it.approve("mem_1")

    assert outcome.status == "skipped"
    assert "1111" not in repr(outcome) + repr(memory.events)
    assert [waiting.id for waiting in memory.it.pending()] == ["mem_1"]
    assert memory.it.reject("mem_1").status == "rejected"


def test_a_topic_put_into_the_list_by_hand_does_not_lead_outside(memory: Memory) -> None:
    record = {"id": "mem_1", "text": "x", "topic": "../../../x"}
    memory.write("pending.json", json.dumps({"version": 1, "records": [record]}))

    with pytest.raises(ConfigError, match="letters, digits"):
        memory.it.approve("mem_1")


steps = st.lists(
    st.tuples(st.sampled_from(["propose", "approve", "reject"]), st.sampled_from("abc")),
    max_size=15,
)


@given(steps=steps)
def test_what_waits_is_approved_or_rejected_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    memory = fresh(tmp_path_factory)
    ids: dict[str, str] = {}
    waiting: set[str] = set()
    saved: set[str] = set()
    for act, text in steps:
        if act == "propose":
            ids[text] = memory.it.propose(f"fact {text}", topic="t").id or ids.get(text, "")
            waiting |= {text} - saved
            continue
        try:
            getattr(memory.it, act)(ids.get(text, "mem_0"))
        except ConfigError:
            assert text not in waiting
        else:
            assert text in waiting
            waiting.remove(text)
            saved |= {text} if act == "approve" else set()

    assert {record.text[-1] for record in memory.it.pending()} == waiting
    assert all(memory.it.startup().count(f"fact {text}") == 1 for text in saved)
    assert memory.kinds().count("approved") == len(saved)


# Finding


def test_what_fits_a_question_is_found_and_counts_as_used(memory: Memory) -> None:
    memory.it.add("Deploys need Ann's approval", topic="deploy")
    memory.it.add("Ann works in Oslo", topic="people")
    memory.it.add("Use tabs", topic="style")

    found = memory.it.find("How do I deploy without Ann?")

    assert [(one.topic, one.score) for one in found] == [("deploy", 6), ("people", 1)]
    assert found[0].path == "topics/deploy.md"
    assert "Ann's approval" in found[0].text
    assert memory.it.list_used() == found


def test_what_was_shown_counts_as_used_and_each_place_once(memory: Memory) -> None:
    memory.it.add("Use tabs", topic="style")
    memory.it.restore_used([MemoryReference(topic="old", path="topics/old.md")])

    memory.it.show("style")
    memory.it.show()
    memory.it.find("tabs")

    assert [one.path for one in memory.it.list_used()] == [
        "topics/old.md",
        "MEMORY.md",
        "topics/style.md",
    ]


def test_the_question_is_told_without_its_secrets(memory: Memory) -> None:
    memory.it.add("Use tabs", topic="style")

    memory.it.find("tabs password=hunter2secret9")

    assert "hunter2secret9" not in repr(memory.events)


# Events


def test_everything_that_happens_is_told_with_its_time(memory: Memory) -> None:
    memory.it.capture("Remember that Ann decides.\nFrom now on, use tabs.")
    first, second = memory.it.pending()
    memory.it.approve(first.id)
    memory.it.reject(second.id)
    memory.it.add(f"pay with {CARD}", topic="t")
    memory.it.show("general")

    assert memory.kinds() == [
        *("extracted", "queued", "extracted", "queued"),
        *("approved", "saved", "rejected", "skipped", "retrieved"),
    ]
    assert {event.at for event in memory.events} == {NOON}
    assert [event.id for event in memory.events[4:7]] == [first.id, first.id, second.id]


def test_a_policy_may_save_what_is_certain_and_switch_all_off(memory: Memory) -> None:
    text = "Remember that Ann decides. I prefer tabs."

    off = memory.it.capture(text, policy=MemoryPolicyEvaluator("disabled"))
    on = memory.it.capture(text, policy=MemoryPolicyEvaluator("auto_save"))

    assert [outcome.status for outcome in off] == ["skipped", "skipped"]
    assert [outcome.status for outcome in on] == ["saved", "queued"]


# Several at once


def test_many_threads_lose_nothing(memory: Memory) -> None:
    def add(worker: int) -> None:
        for n in range(8):
            memory.it.add(f"fact {worker} {n}", topic=f"t{n % 2}")
            memory.it.propose(f"idea {worker} {n}", topic="t")

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    index = memory.file("MEMORY.md").splitlines()
    assert sum("fact" in line for line in index) == len(set(index) - {"", "# Project memory"}) == 32
    assert len(memory.it.pending()) == 32


APPROVE_ALL = """
import json, sys
from pathlib import Path
from clew.core.errors import ConfigError
from clew.extensions.memory import ProjectMemory

memory, mine = ProjectMemory(Path(sys.argv[1])), []
sys.stdin.readline()
for id_ in sys.argv[2:]:
    try:
        memory.approve(id_)
    except ConfigError:
        continue
    mine.append(id_)
print(json.dumps(mine))
"""


@pytest.mark.slow("starts processes")
def test_of_several_processes_that_approve_one_succeeds(memory: Memory) -> None:
    ids = [memory.it.propose(f"fact {n}", topic="t").id for n in range(12)]
    command = [sys.executable, "-c", APPROVE_ALL, str(memory.folder), *ids]
    pipe = subprocess.PIPE
    children = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]

    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    won = [json.loads(child.communicate(timeout=60)[0]) for child in children]

    assert sorted(id_ for mine in won for id_ in mine) == sorted(ids)
    assert memory.it.pending() == ()
    index = memory.file("MEMORY.md").splitlines()
    assert sorted(line.split()[-1] for line in index[2:]) == sorted(map(str, range(12)))


def test_who_keeps_the_folder_too_long_is_named(memory: Memory) -> None:
    memory.it.add("x", topic="t")

    with (
        lock_folder(memory.folder),
        pytest.raises(StoreUnavailable, match="another process"),
        lock_folder(memory.folder, timeout=0),
    ):
        pass


def test_a_topic_that_is_full_is_an_error_and_stays_as_it_is(memory: Memory) -> None:
    path = memory.write("topics/t.md", "x" * (1024 * 1024 - 10))

    with pytest.raises(ConfigError, match="is full"):
        memory.it.add("a fact", topic="t")

    assert path.stat().st_size == 1024 * 1024 - 10


def test_the_store_alone_says_whether_it_had_a_fact(tmp_path: Path) -> None:
    store = ProjectMemoryStore(tmp_path / "a" / "b", clock=lambda: NOON)
    fact = Fact(text="Use tabs", topic="style")

    assert [store.has(fact), store.append(fact), store.append(fact), store.has(fact)] == [
        *(False, False, True, True)
    ]
