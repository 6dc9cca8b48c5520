"""Whatever was done to a folder, a restore makes it what it was, and an undo what it became."""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from clew.checkpoints.checkpoint_list import count_changed_lines
from clew.checkpoints.file_checkpoints import FileCheckpoints
from clew.core.ids import EntryId, SessionId

NAMES = ["a", "b", "d", "d/x", "d/y", "d/e/z", "l", "l/x", "k"]
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Thousands of forced writes are slow on a disk, and here they show nothing more."""
Tree = dict[str, tuple[str, object]]


@dataclass(frozen=True)
class Op:
    """One change of one path, as a tool would make it."""

    kind: str
    path: str
    content: bytes = b""
    mode: int = 0o644
    target: str = ""

    def run(self, root: Path) -> None:
        with suppress(OSError):  # what cannot be done is not done, as with any tool
            getattr(self, self.kind)(root / self.path)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content)

    def delete(self, path: Path) -> None:
        path.unlink()

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def mkdir(self, path: Path) -> None:
        path.mkdir(parents=True)

    def chmod(self, path: Path) -> None:
        path.chmod(self.mode)

    def link(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(self.target)


names = st.sampled_from(NAMES)
ops = st.one_of(
    st.builds(Op, st.just("write"), names, content=st.binary(max_size=20)),
    st.builds(Op, st.just("write"), names, content=st.sampled_from([b"", b"one\ntwo\n", b"\xff"])),
    st.builds(Op, st.sampled_from(["delete", "rmdir", "mkdir"]), names),
    st.builds(Op, st.just("chmod"), names, mode=st.sampled_from([0o600, 0o644, 0o755, 0o700])),
    st.builds(
        Op, st.just("link"), names, target=st.sampled_from(["a", "d", "./b", "nowhere", "l", "d/e"])
    ),
)


def tree(root: Path) -> Tree:
    """Return all that is in a folder: kind, mode, content."""
    found: Tree = {}
    for folder, subfolders, files in os.walk(root):
        for name in [*subfolders, *files]:
            path = Path(folder) / name
            facts = path.lstat()
            mode = stat.S_IMODE(facts.st_mode)
            shown = str(path.relative_to(root))
            if stat.S_ISLNK(facts.st_mode):
                found[shown] = ("link", os.readlink(path))  # noqa: PTH115 - a Path would tidy it up
            elif stat.S_ISDIR(facts.st_mode):
                found[shown] = ("folder", mode)
            else:
                found[shown] = ("file", (mode, path.read_bytes()))
    return found


class Folder(RuleBasedStateMachine):
    """Turns, restores and crashes in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="clew-", dir=IN_MEMORY)).resolve()
        self.root = self.base / "project"
        self.root.mkdir()
        self.entry = 0
        self.before: dict[EntryId, Tree] = {}
        self.open()

    def open(self) -> None:
        self.keeper = FileCheckpoints(self.base / "kept", SessionId("s"), root=self.root)

    def teardown(self) -> None:
        shutil.rmtree(self.base)

    def next_entry(self) -> EntryId:
        self.entry += 1
        return EntryId(self.entry)

    def change(self, changes: list[Op]) -> None:
        entry = self.next_entry()
        self.before[entry] = tree(self.root)
        self.keeper.begin(entry, "a prompt")
        for op in changes:
            self.keeper.keep(self.root / op.path)
            op.run(self.root)
        self.next_entry()

    @rule(changes=st.lists(ops, max_size=8))
    def a_turn(self, changes: list[Op]) -> None:
        self.change(changes)
        self.keeper.seal(EntryId(self.entry))

    @rule(changes=st.lists(ops, max_size=8))
    def a_turn_that_crashes(self, changes: list[Op]) -> None:
        self.change(changes)
        self.open()

    @rule()
    def the_session_is_opened_again(self) -> None:
        self.open()

    @precondition(lambda self: self.before)
    @rule(data=st.data())
    def a_restore(self, data: st.DataObject) -> None:
        self.restore(data)

    @precondition(lambda self: self.before)
    @rule(data=st.data())
    def a_restore_that_is_undone(self, data: st.DataObject) -> None:
        now = tree(self.root)
        told_by = self.restore(data)

        undone = self.keeper.restore(self.keeper.of_rewind(told_by), entry=self.next_entry())

        assert undone.skipped == ()
        assert tree(self.root) == now

    def restore(self, data: st.DataObject) -> EntryId:
        target = data.draw(st.sampled_from(sorted(self.before)))
        told_by = self.next_entry()
        self.before[told_by] = tree(self.root)

        done = self.keeper.restore(self.keeper.since(target), entry=told_by)

        assert done.skipped == ()
        assert tree(self.root) == self.before[target]
        return told_by


Folder.TestCase.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
TestFolder = pytest.mark.req("CKP-1")(Folder.TestCase)


class Step(NamedTuple):
    """What happens to one file: by a tool within a turn, or by somebody else between turns."""

    by_tool: bool
    name: str
    content: bytes | None


steps = st.builds(
    Step, st.booleans(), st.sampled_from("abc"), st.sampled_from([None, b"0", b"1", b"2", b"3"])
)


def put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(content)


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@pytest.mark.req("CKP-1")
@settings(max_examples=60)
@given(st.lists(st.lists(steps, max_size=4), min_size=1, max_size=5), st.data())
def test_what_others_changed_is_refused_and_nothing_else(
    turns: list[list[Step]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory(prefix="clew-", dir=IN_MEMORY) as base:
        root = Path(base).resolve() / "project"
        root.mkdir()
        keeper = FileCheckpoints(Path(base) / "kept", SessionId("s"), root=root)
        seen: dict[str, list[tuple[int, bytes | None, bytes | None]]] = {}
        for number, changes in enumerate(turns, 1):
            for step in changes:
                if not step.by_tool:
                    put(root / step.name, step.content)
            keeper.begin(EntryId(number), "")
            before = {step.name: content(root / step.name) for step in changes if step.by_tool}
            for step in changes:
                if step.by_tool:
                    keeper.keep(root / step.name)
                    put(root / step.name, step.content)
            keeper.seal(EntryId(number))
            for name, old in before.items():
                seen.setdefault(name, []).append((number, old, content(root / name)))
        target = data.draw(st.integers(1, len(turns)))
        now = {name: content(root / name) for name in "abc"}
        wanted, refused = dict(now), set[str]()
        for name, history in seen.items():
            taken = [(old, new) for number, old, new in history if number >= target]
            if not taken or taken[0][0] == now[name]:
                continue
            found = [old for old, _ in taken[1:]] + [now[name]]
            if [new for _, new in taken] == found:
                wanted[name] = taken[0][0]
            else:
                refused.add(name)

        done = keeper.restore(keeper.since(EntryId(target)), entry=EntryId(100))

        assert {Path(skip.path).name for skip in done.skipped} == refused
        assert {name: content(root / name) for name in "abc"} == wanted
        keeper.restore(keeper.of_rewind(EntryId(100)), entry=EntryId(101))
        assert {name: content(root / name) for name in "abc"} == now


@settings(max_examples=60)
@given(*[st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"]), max_size=12)] * 2)
def test_counted_lines_account_for_the_difference(old: list[bytes], new: list[bytes]) -> None:
    counted = count_changed_lines(b"".join(old), b"".join(new))

    assert counted is not None
    added, removed = counted
    assert len(old) - removed == len(new) - added
    assert 0 <= removed <= len(old)
    assert (added + removed == 0) == (old == new)


def test_lines_are_not_counted_where_that_says_nothing_or_takes_too_long() -> None:
    many = b"".join(b"%d\n" % number for number in range(5_000))

    assert count_changed_lines(b"\0", b"text") is None
    assert count_changed_lines(b"x" * 4_000_001, b"") is None
    assert count_changed_lines(many, many[::-1]) == (5_001, 5_000)
    assert count_changed_lines(many + b"x\ny", many + b"y") == (0, 1)
