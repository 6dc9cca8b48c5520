"""Files as they were before a turn: what is kept, what comes back, and what is refused."""

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.checkpoints.file_checkpoints import FileCheckpoints, delete_checkpoints
from clew.checkpoints.manifest import BeginRecord
from clew.checkpoints.path_states import FileState
from clew.checkpoints.restore import RestoreRules, restore
from clew.checkpoints.storage import CheckpointStorage
from clew.checkpoints.values import CheckpointChange, CheckpointLimits, RestoreResult
from clew.core.errors import SessionError, StoreUnavailable
from clew.core.ids import EntryId, SessionId
from clew.files.atomic import replace_file, replace_with_link

pytestmark = pytest.mark.req("CKP-1")

Change = Callable[[Path], object]


class Desk:
    """A project, and a session that keeps its files; each turn has ten entries."""

    def __init__(self, base: Path, limits: CheckpointLimits | None = None) -> None:
        self.base = base
        self.root = base / "project"
        self.root.mkdir(exist_ok=True)
        self.kept = base / "kept"
        self._limits = limits or CheckpointLimits()
        self.turns = 0
        self.reopen()

    def reopen(self) -> None:
        self.keeper = FileCheckpoints(
            self.kept,
            SessionId("s"),
            root=self.root,
            limits=self._limits,
            clock=lambda: 1000.0 + self.turns,
        )

    def path(self, name: str) -> Path:
        return self.root / name

    def turn(self, **changes: str | bytes | Change | None) -> list[str]:
        """Run a turn that writes a text or bytes to each file, deletes it, or does as it is told.

        A `/` in a file's name is written as `__`.
        """
        self.begin()
        for name, change in changes.items():
            self.change(self.path(name.replace("__", "/")), change)
        return self.keeper.seal(EntryId(self.turns * 10 + 9))

    def begin(self) -> None:
        self.turns += 1
        self.keeper.begin(EntryId(self.turns * 10), f"prompt {self.turns}")

    def change(self, path: Path, change: str | bytes | Change | None) -> None:
        self.keeper.keep(path)
        if callable(change):
            change(path)
        elif change is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change.encode() if isinstance(change, str) else change)

    def back(self, turn: int, *, force: bool = False, outside: bool = False) -> RestoreResult:
        """Restore files to the state before a turn."""
        chosen = self.keeper.since(EntryId(turn * 10))
        return self.keeper.restore(chosen, entry=self.told_by(), force=force, outside=outside)

    def undo(self) -> RestoreResult:
        """Take the last restore back."""
        chosen = self.keeper.of_rewind(EntryId(self.turns * 10))
        return self.keeper.restore(chosen, entry=self.told_by())

    def told_by(self) -> EntryId:
        self.turns += 1
        return EntryId(self.turns * 10)

    def manifest(self) -> Path:
        return self.kept / "s" / "manifest.jsonl"

    def blobs(self) -> list[str]:
        return sorted(path.name for path in (self.kept / "s" / "blobs").iterdir())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def link_text(path: Path) -> str:
    return os.readlink(path)  # noqa: PTH115 - a Path would tidy it up


def reasons(done: RestoreResult) -> dict[str, str]:
    return {Path(skip.path).name: skip.why for skip in done.skipped}


def test_a_turn_is_taken_back_file_by_file(desk: Desk) -> None:
    desk.path("edited").write_text("old")
    desk.path("deleted").write_bytes(bytes(range(256)))

    desk.turn(edited="new", deleted=None, created="fresh", sub__deep__made="x")
    done = desk.back(1)

    assert desk.path("edited").read_text() == "old"
    assert desk.path("deleted").read_bytes() == bytes(range(256))
    assert names(desk.root) == ["deleted", "edited"]
    assert done.skipped == ()
    made = ["created", "deleted", "edited", "sub", "sub/deep", "sub/deep/made"]
    assert sorted(done.restored) == [str(desk.path(name)) for name in made]


def test_the_first_state_in_a_turn_counts_and_is_kept_once(desk: Desk) -> None:
    desk.path("f").write_text("first")

    desk.begin()
    for text in ["second", "third", "fourth"]:
        desk.change(desk.path("f"), text)
    desk.keeper.seal(EntryId(19))

    assert len(desk.blobs()) == 1
    desk.back(1)
    assert desk.path("f").read_text() == "first"


def test_edits_of_one_file_side_by_side_keep_its_first_state(desk: Desk) -> None:
    desk.path("f").write_text("first")
    desk.begin()
    start = threading.Barrier(8)

    def edit(number: int) -> None:
        start.wait()
        desk.change(desk.path("f"), f"edit {number}")
        desk.change(desk.path(f"own{number}"), "x")

    threads = [threading.Thread(target=edit, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.keeper.seal(EntryId(19))

    assert desk.manifest().read_text().count(f'"path":"{desk.path("f")}"') == 1
    assert desk.back(1).skipped == ()
    assert desk.path("f").read_text() == "first"
    assert names(desk.root) == ["f"]


def test_turns_are_taken_back_newest_first(desk: Desk) -> None:
    desk.path("f").write_text("0")
    for number in "1234":
        desk.turn(f=number)

    desk.back(3)
    assert desk.path("f").read_text() == "2"

    desk.back(1)
    assert desk.path("f").read_text() == "0"


def test_a_restore_can_be_undone_and_the_undo_too(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.turn(f="new", g="made")

    desk.back(1)
    desk.undo()
    assert (desk.path("f").read_text(), desk.path("g").read_text()) == ("new", "made")

    desk.undo()
    assert desk.path("f").read_text() == "old"
    assert not desk.path("g").exists()


def test_an_undone_restore_leaves_later_turns_alone(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.turn(f="new", g="made")
    desk.back(1)
    rewound = EntryId(desk.turns * 10)
    desk.turn(f="another way")

    done = desk.keeper.restore(desk.keeper.of_rewind(rewound), entry=desk.told_by())

    assert desk.path("g").read_text() == "made"
    assert desk.path("f").read_text() == "another way"
    assert list(reasons(done)) == ["f"]


def test_modes_come_back(desk: Desk) -> None:
    script = desk.path("run.sh")
    script.write_text("echo")
    script.chmod(0o750)

    desk.turn(**{"run.sh": lambda path: path.chmod(0o600)})
    desk.back(1)
    assert stat.S_IMODE(script.stat().st_mode) == 0o750

    desk.turn(**{"run.sh": None})
    desk.back(desk.turns)
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_a_link_and_what_it_leads_to_come_back(desk: Desk) -> None:
    desk.path("target").write_text("old")
    desk.path("link").symlink_to("./target")

    desk.turn(link="written through the link")
    assert desk.path("target").read_text() == "written through the link"
    desk.back(1)
    assert desk.path("target").read_text() == "old"
    assert link_text(desk.path("link")) == "./target"

    def replace(path: Path) -> None:
        path.unlink()
        path.write_text("now a file")

    desk.turn(link=replace)
    desk.back(desk.turns)
    assert link_text(desk.path("link")) == "./target"
    assert desk.path("target").read_text() == "old"


def test_a_name_that_is_no_text_is_kept_too(desk: Desk) -> None:
    path = desk.root / os.fsdecode(b"odd-\xff")
    target = os.fsdecode(b"away-\xfe")
    path.write_text("old")
    link = desk.root / "link"
    link.symlink_to(target)
    desk.begin()
    desk.change(path, "new")
    desk.change(link, lambda path: path.unlink())
    desk.keeper.seal(EntryId(19))
    desk.reopen()

    done = desk.back(1)

    assert path.read_text() == "old"
    assert link_text(link) == target
    assert str(desk.root / "odd-�") in done.restored


def test_a_file_that_somebody_changed_since_is_refused_unless_forced(desk: Desk) -> None:
    desk.path("mine").write_text("a")
    desk.path("yours").write_text("b")
    desk.turn(mine="model", yours="model")
    desk.path("yours").write_text("the user's own work")

    done = desk.back(1)

    assert desk.path("mine").read_text() == "a"
    assert desk.path("yours").read_text() == "the user's own work"
    assert reasons(done) == {"yours": "it was changed after checkpoint 1 by another program"}
    assert done.skipped[0].forceable

    forced = desk.back(1, force=True)

    assert forced.skipped == ()
    assert desk.path("yours").read_text() == "b"
    desk.undo()
    assert desk.path("yours").read_text() == "the user's own work"


def test_what_somebody_wrote_between_two_turns_is_not_lost_unasked(desk: Desk) -> None:
    desk.path("f").write_text("0")
    desk.turn(f="1")
    desk.path("f").write_text("the user's own work")
    desk.turn(f="2")

    done = desk.back(1)
    assert desk.path("f").read_text() == "2"
    assert reasons(done) == {"f": "it was changed after checkpoint 1 by another program"}

    assert desk.back(2).skipped == ()
    assert desk.path("f").read_text() == "the user's own work"


def test_a_file_that_is_already_as_it_was_is_no_reason_to_refuse(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.turn(f="new")
    desk.path("f").write_text("old")

    assert desk.back(1) == RestoreResult()


def test_files_outside_the_project_come_back_only_when_asked_for(desk: Desk) -> None:
    outside = desk.base / "outside.txt"
    outside.write_text("old")
    desk.begin()
    desk.change(outside, "new")
    desk.change(desk.path("inside"), "new")
    desk.keeper.seal(EntryId(19))

    done = desk.back(1)
    assert outside.read_text() == "new"
    assert reasons(done) == {"outside.txt": "it is outside the project"}

    assert desk.back(1, outside=True).skipped == ()
    assert outside.read_text() == "old"


def test_a_file_too_large_to_keep_is_told_of_and_left_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path, CheckpointLimits(file_bytes=10))
    desk.path("big").write_text("x" * 11)
    desk.path("grown").write_text("small")
    why = "it has 11 bytes, more than are kept"

    notes = desk.turn(big="small now", grown="y" * 12)

    assert notes == [f"{desk.path('big')} cannot be rewound: {why}"]
    assert [file.note for file in desk.keeper.summaries()[0].files] == [why, ""]
    done = desk.back(1)
    assert reasons(done) == {
        "big": f"it was not kept: {why}",
        "grown": "its current content could not be brought back: "
        "it has 12 bytes, more than are kept",
    }
    assert reasons(desk.back(1, force=True)) == {"big": f"it was not kept: {why}"}
    assert desk.path("grown").read_text() == "small"


def test_what_is_no_file_is_not_kept(desk: Desk) -> None:
    os.mkfifo(desk.path("pipe"))

    notes = desk.turn(pipe=lambda path: path.unlink())

    assert notes == [
        f"{desk.path('pipe')} cannot be rewound: it is neither a file nor a folder nor a link"
    ]


def test_own_files_are_never_kept(desk: Desk) -> None:
    desk.turn()

    desk.begin()
    desk.keeper.keep(desk.manifest())
    desk.keeper.seal(EntryId(29))

    assert desk.keeper.summaries()[1].files == ()
    assert b"manifest.jsonl" not in desk.manifest().read_bytes()


def test_a_folder_that_a_restore_had_to_make_goes_with_its_undo(desk: Desk) -> None:
    desk.path("d").mkdir()
    desk.path("d/f").write_text("old")
    desk.turn(d__f=None)
    desk.path("d").rmdir()

    assert desk.back(1).skipped == ()
    assert desk.path("d/f").read_text() == "old"

    desk.undo()
    assert names(desk.root) == []


def test_a_folder_with_other_files_in_it_stays(desk: Desk) -> None:
    desk.turn(new__made="x")
    desk.path("new/mine").write_text("the user's")

    done = desk.back(1)

    assert names(desk.path("new")) == ["mine"]
    assert reasons(done) == {"new": "other files are in that folder"}


def test_a_folder_that_became_a_link_is_not_followed(desk: Desk) -> None:
    desk.path("d").mkdir()
    desk.path("d/f").write_text("old")
    desk.turn(d__f="new")
    elsewhere = desk.base / "elsewhere"
    desk.path("d").rename(elsewhere)
    desk.path("d").symlink_to(elsewhere)

    assert reasons(desk.back(1)) == {"f": "it was changed after checkpoint 1 by another program"}
    forced = desk.back(1, force=True)

    assert reasons(forced) == {"f": "its folder has become a link to another place"}
    assert (elsewhere / "f").read_text() == "new"


def test_what_fails_is_named_and_can_be_tried_again(desk: Desk) -> None:
    for name in "abc":
        desk.path(name).write_text(f"old {name}")
    desk.turn(a="new", b="new", c="new")
    first = desk.keeper.since(EntryId(10))[0].kept[str(desk.path("b"))]
    assert isinstance(first, FileState)
    blob = desk.kept / "s" / "blobs" / first.digest
    blob.write_bytes(b"bit rot")

    done = desk.back(1)

    assert [Path(path).name for path in done.restored] == ["a", "c"]
    assert reasons(done) == {"b": "its kept content is damaged"}
    assert desk.path("b").read_text() == "new"
    blob.unlink()
    assert reasons(desk.back(1)) == {"b": "its kept content is missing"}
    blob.write_bytes(b"old b")
    assert desk.back(1).skipped == ()
    assert [desk.path(name).read_text() for name in "abc"] == ["old a", "old b", "old c"]


def test_a_folder_that_took_the_place_of_a_file_goes_only_if_it_is_empty(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.turn(f=None)
    desk.path("f").mkdir()
    desk.path("f/inside").write_text("the user's")

    assert reasons(desk.back(1, force=True)) == {"f": "other files are in that folder"}
    assert desk.path("f/inside").read_text() == "the user's"

    desk.path("f/inside").unlink()
    assert desk.back(1, force=True).skipped == ()
    assert desk.path("f").read_text() == "old"


def test_what_changes_while_a_restore_looks_at_it_is_spared(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.turn(f="new")

    class Hasty(CheckpointStorage):
        """Somebody writes to the file after it was looked at."""

        def keep(self, *arguments: object) -> None:
            desk.path("f").write_text("just now")
            super().keep(*arguments)  # type: ignore[arg-type]

    shelf = Hasty(desk.kept / "s", floor=EntryId(0), limits=CheckpointLimits())
    began = BeginRecord(number=2, cause="rewind", entry=EntryId(20), at=0.0)

    done = restore(shelf, shelf.history.checkpoints, RestoreRules(root=desk.root), began)

    assert reasons(done) == {"f": "it was just changed by another process"}
    assert desk.path("f").read_text() == "just now"


def test_what_cannot_be_kept_must_not_be_changed(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.turn(g="x")
    (desk.kept / "s" / "blobs").write_text("in the way")
    desk.begin()

    with pytest.raises(OSError, match="cannot be kept for a rewind"):
        desk.keeper.keep(desk.path("f"))


def test_a_restore_that_cannot_keep_what_it_overwrites_changes_nothing(desk: Desk) -> None:
    desk.turn(made="new")
    (desk.kept / "s" / "blobs").write_text("in the way")

    with pytest.raises(StoreUnavailable, match="cannot be used"):
        desk.back(1)

    assert desk.path("made").read_text() == "new"
    (desk.kept / "s" / "blobs").unlink()
    assert desk.back(1).skipped == ()
    assert not desk.path("made").exists()


def test_a_place_that_cannot_be_written_to_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    desk = Desk(tmp_path)

    with pytest.raises(StoreUnavailable, match="cannot be used"):
        desk.begin()


def test_a_turn_whose_end_cannot_be_noted_is_ended_later(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.begin()
    desk.change(desk.path("f"), "new")
    manifest = desk.manifest()
    manifest.rename(manifest.with_name("aside"))
    manifest.mkdir()

    notes = desk.keeper.seal(EntryId(19))

    assert notes == ["the checkpoint of this turn could not be ended: Is a directory"]
    manifest.rmdir()
    manifest.with_name("aside").rename(manifest)
    assert desk.back(1).skipped == ()
    assert desk.path("f").read_text() == "old"


def test_nobody_else_can_read_what_is_kept(desk: Desk) -> None:
    desk.path("f").write_text("secret")
    before = os.umask(0)
    try:
        desk.turn(f="new")
    finally:
        os.umask(before)

    own = [desk.kept / "s", *(desk.kept / "s").rglob("*")]
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in own}
    assert modes == {True: 0o700, False: 0o600}


@pytest.mark.parametrize("ended", [True, False])
def test_a_line_torn_at_any_byte_costs_no_more_than_itself(desk: Desk, *, ended: bool) -> None:
    desk.path("f").write_text("old")
    desk.begin()
    desk.change(desk.path("f"), "new")
    if ended:
        desk.keeper.seal(EntryId(19))
    whole = desk.manifest().read_bytes()
    last = whole[:-1].rfind(b"\n") + 1

    for length in range(last, len(whole), 5):
        desk.manifest().write_bytes(whole[:length])
        desk.path("f").write_text("new")
        desk.reopen()
        desk.turns = 1
        done = desk.back(1)

        lost = not ended
        assert desk.path("f").read_text() == ("new" if lost else "old")
        assert done.skipped == ()
        desk.reopen()
        assert desk.keeper.summaries()[0].number == 1
        assert all(json.loads(line) for line in desk.manifest().read_bytes().splitlines())


def test_a_damaged_line_is_passed_over(desk: Desk) -> None:
    for name in "ab":
        desk.path(name).write_text("old")
    desk.turn(a="new")
    desk.turn(b="new")
    lines = desk.manifest().read_bytes().splitlines()
    kept = next(n for n, line in enumerate(lines) if b'"keep"' in line)
    damaged = [*lines[:kept], b'{"line":"keep","num\xff', b'{"line":"keep"}', *lines[kept + 1 :]]
    desk.manifest().write_bytes(b"\n".join(damaged) + b"\n")
    desk.reopen()

    done = desk.back(1)

    assert desk.path("b").read_text() == "old"
    assert desk.path("a").read_text() == "new"
    assert done.skipped == ()


def test_a_turn_without_a_beginning_or_an_end_is_treated_with_care(desk: Desk) -> None:
    desk.path("f").write_text("0")
    desk.path("g").write_text("0")
    desk.turn(f="1", g="1")
    desk.turn(f="2")
    desk.turn(h="3")
    lines = desk.manifest().read_bytes().splitlines(keepends=True)
    lost = [n for n, line in enumerate(lines) if b'"begin","number":3' in line]
    lost += [n for n, line in enumerate(lines) if b'"seal","number":1' in line]
    desk.manifest().write_bytes(b"".join(line for n, line in enumerate(lines) if n not in lost))
    desk.reopen()

    assert [one.number for one in desk.keeper.summaries()] == [1, 2]
    assert [one.number for one in desk.keeper.since(EntryId(15))] == [1, 2]
    assert [one.number for one in desk.keeper.since(EntryId(20))] == [2]
    done = desk.back(1)
    unknown = "its state after checkpoint 1 is not known"
    assert reasons(done) == {"f": unknown, "g": unknown}
    assert desk.back(1, force=True).skipped == ()
    assert desk.path("f").read_text() == "0"


def test_a_manifest_of_a_newer_clew_is_left_alone(desk: Desk) -> None:
    desk.turn()
    newer = desk.manifest().read_bytes().replace(b'"version":1', b'"version":2')
    desk.manifest().write_bytes(newer)
    desk.reopen()

    with pytest.raises(StoreUnavailable, match="newer Clew"):
        desk.begin()
    assert desk.manifest().read_bytes() == newer


def test_the_list_tells_words_times_and_lines(desk: Desk) -> None:
    desk.path("f").write_text("one\ntwo\nthree\n")
    desk.path("gone").write_text("bye\n")
    desk.path("picture").write_bytes(b"\0\1")
    desk.path("same").write_text("same")

    desk.turn(f="one\n2\nthree\nfour\n", gone=None, d__new="x\ny", picture=b"\0\2", same="same")
    desk.keeper.begin(EntryId(20), "  Fix\n the \ud800  " + "long " * 100)
    desk.change(desk.path("f"), "")

    first, running = desk.keeper.summaries()
    assert (first.number, first.entry, first.cause, first.at) == (1, 10, "turn", 1001.0)
    assert first.words == "prompt 1"
    assert [
        (Path(file.path).name, file.change, file.added, file.removed) for file in first.files
    ] == [
        ("f", "changed", 2, 1),
        ("gone", "deleted", 0, 1),
        ("new", "created", 2, 0),
        ("picture", "changed", None, None),
    ]
    assert running.words.startswith("Fix the � long long")
    assert len(running.words) == 121
    assert running.files == (
        CheckpointChange(path=str(desk.path("f")), change="changed", added=0, removed=4),
    )


def test_lines_of_what_became_a_link_are_not_counted(desk: Desk) -> None:
    desk.path("f").write_text("text\n")

    def relink(path: Path) -> None:
        path.unlink()
        path.symlink_to("elsewhere")

    desk.turn(f=relink)

    assert [(file.change, file.added) for file in desk.keeper.summaries()[0].files] == [
        ("changed", None)
    ]


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    desk = Desk(tmp_path, CheckpointLimits(checkpoints=3))
    desk.path("f").write_text("0")
    for number in "12345":
        desk.turn(f=number)

    assert [one.number for one in desk.keeper.summaries()] == [3, 4, 5]
    assert len(desk.blobs()) == 3
    with pytest.raises(SessionError, match="after entry #29"):
        desk.keeper.since(EntryId(25))
    desk.reopen()
    assert desk.back(3).skipped == ()
    assert desk.path("f").read_text() == "2"


def test_the_oldest_go_when_they_take_too_much(tmp_path: Path) -> None:
    desk = Desk(tmp_path, CheckpointLimits(total_bytes=250))
    desk.path("f").write_text("0" * 100)
    for number in "1234":
        desk.turn(f=number * 100)
    assert [one.number for one in desk.keeper.summaries()] == [3, 4]

    desk.turn(f=lambda path: path.write_text("5" * 1_000))
    desk.turn(f="6")
    assert [one.number for one in desk.keeper.summaries()] == [6]
    desk.turn()
    assert [one.number for one in desk.keeper.summaries()] == [7]


def test_the_running_turn_is_never_let_go(tmp_path: Path) -> None:
    desk = Desk(tmp_path, CheckpointLimits(checkpoints=1, total_bytes=1))
    for name in "abc":
        desk.path(name).write_text(f"a long text about {name}")

    desk.turn(a="1")
    desk.turn(a="2", b="2", c="2")
    assert [one.number for one in desk.keeper.summaries()] == [2]
    assert desk.back(2).skipped == ()

    assert desk.path("c").read_text() == "a long text about c"


def test_a_session_that_begins_to_keep_files_late_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.keeper = FileCheckpoints(desk.kept, SessionId("s"), root=desk.root, floor=EntryId(57))
    desk.turns = 5

    with pytest.raises(SessionError, match="nothing older is kept"):
        desk.keeper.since(EntryId(57))

    desk.turn(f="x")
    desk.reopen()
    with pytest.raises(SessionError, match="nothing older is kept"):
        desk.keeper.since(EntryId(57))
    assert len(desk.keeper.since(EntryId(58))) == 1


def test_a_change_outside_of_any_turn_is_kept_as_well(desk: Desk) -> None:
    desk.path("f").write_text("0")
    desk.change(desk.path("f"), "1")
    desk.turn(f="2")
    desk.change(desk.path("f"), "3")
    desk.turn(f="4")

    assert [(one.number, one.words) for one in desk.keeper.summaries()] == [
        (1, ""),
        (2, "prompt 1"),
        (3, ""),
        (4, "prompt 2"),
    ]
    assert [one.number for one in desk.keeper.since(EntryId(20))] == [4]
    assert desk.back(1).skipped == ()
    assert desk.path("f").read_text() == "1"


def test_a_restore_that_was_broken_off_does_not_count_as_the_prompt_after_it(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.turn(f="new")
    desk.back(1)
    desk.turns -= 1  # the process died before its entry was written, so a prompt got its number
    desk.turn(f="newer")

    desk.back(2)

    assert desk.path("f").read_text() == "old"


@pytest.mark.parametrize("session_id", ["s", "../../escape", "a/b", ".", "x" * 300, "ü"])
def test_every_session_has_a_folder_of_its_own(tmp_path: Path, session_id: str) -> None:
    kept, root = tmp_path / "a" / "b" / "kept", tmp_path / "project"
    root.mkdir()
    (root / "f").write_text("old")
    for name in (session_id, "other"):
        keeper = FileCheckpoints(kept, SessionId(name), root=root)
        keeper.begin(EntryId(1), "hello")
        keeper.keep(root / "f")
        keeper.seal(EntryId(2))
    assert len(list(kept.iterdir())) == 2

    delete_checkpoints(kept, SessionId(session_id))
    delete_checkpoints(kept, SessionId(session_id))

    assert [path.name for path in kept.iterdir()] == ["other"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "project"]


def test_extended_attributes_of_a_file_stay(desk: Desk) -> None:
    desk.path("f").write_text("old")
    try:
        os.setxattr(desk.path("f"), "user.note", b"mine")
    except (AttributeError, OSError):
        pytest.skip("no extended attributes here")
    desk.turn(f=lambda path: path.write_text("new"))

    desk.back(1)

    assert desk.path("f").read_text() == "old"
    assert os.getxattr(desk.path("f"), "user.note") == b"mine"


def test_a_step_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(OSError, match="Is a directory"):
        replace_file(tmp_path / "folder", b"x", mode=0o600)
    with pytest.raises(OSError, match="Is a directory"):
        replace_with_link(tmp_path / "folder", "target")

    assert names(tmp_path) == ["folder"]


def test_what_a_broken_off_write_left_does_not_keep_a_folder(desk: Desk) -> None:
    desk.turn(new__made="x")
    desk.path("new/.clew-0123456789abcdef.tmp").write_text("half")

    assert desk.back(1).skipped == ()
    assert names(desk.root) == []


def test_what_cannot_be_read_is_not_kept(desk: Desk) -> None:
    if not Path("/proc/self/mem").exists():
        pytest.skip("there is no file here that cannot be read by anybody")
    desk.begin()
    desk.keeper.keep(Path("/proc/self/mem"))

    notes = desk.keeper.seal(EntryId(19))

    assert len(notes) == 1
    assert "cannot be rewound: it cannot be read: " in notes[0]


def test_what_cannot_even_be_looked_at_must_not_be_changed(desk: Desk) -> None:
    desk.begin()

    with pytest.raises(OSError, match=r"cannot be kept for a rewind .File name too long."):
        desk.keeper.keep(desk.path("x" * 300))


def test_a_path_that_ends_in_dots_is_the_folder_it_means(desk: Desk) -> None:
    desk.path("d").mkdir()

    desk.begin()
    desk.keeper.keep(desk.path("d/.."))
    desk.keeper.seal(EntryId(19))

    assert list(desk.keeper.since(EntryId(10))[0].kept) == [str(desk.root)]


def test_lines_are_not_counted_against_a_damaged_content(desk: Desk) -> None:
    desk.path("f").write_text("old")
    desk.begin()
    desk.change(desk.path("f"), "new")
    (desk.kept / "s" / "blobs" / desk.blobs()[0]).write_text("bit rot")
    desk.keeper.seal(EntryId(19))

    assert [file.added for file in desk.keeper.summaries()[0].files] == [None]


def test_limits_hold_for_a_damaged_manifest_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path, CheckpointLimits(checkpoints=2))
    desk.turn(f="1")
    desk.turn(f="2")
    lines = desk.manifest().read_bytes().splitlines(keepends=True)
    seals = [line for line in lines if b'"seal"' in line]
    desk.manifest().write_bytes(b"".join(line for line in lines if line not in seals))
    desk.reopen()

    desk.turn(f="3")
    desk.reopen()
    assert [one.number for one in desk.keeper.summaries()] == [2, 3]
    desk.turn(f="4")

    desk.reopen()
    assert [one.number for one in desk.keeper.summaries()] == [3, 4]
    with pytest.raises(SessionError, match="after entry #29"):
        desk.keeper.since(EntryId(25))
