"""Atomic replacement, locks, and reads in folders that other people write to."""

import errno
import os
import stat
from pathlib import Path

import pytest

from clew.files.atomic import (
    make_private_folder,
    remove_empty_folder,
    remove_stale_temporaries,
    replace_file,
    replace_with_link,
)
from clew.files.locks import file_lock, folder_lock, lock_descriptor
from clew.files.safe_read import NotRegularFile, open_regular, read_regular


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_replaced_file_keeps_its_mode_unless_one_is_given(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)

    replace_file(path, b"new")
    kept = mode_of(path)
    replace_file(path, b"newer", mode=0o600)

    assert (kept, mode_of(path), path.read_bytes()) == (0o640, 0o600, b"newer")


def test_a_new_file_gets_the_default_mode_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")

    replace_file(tmp_path / "file", b"new", durable=False)

    assert mode_of(tmp_path / "file") == mode_of(tmp_path / "usual")


def test_a_check_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def refuse() -> None:
        raise RuntimeError("changed")

    with pytest.raises(RuntimeError, match="changed"):
        replace_file(path, b"new", before_rename=refuse)

    assert path.read_text() == "old"
    assert [child.name for child in tmp_path.iterdir()] == ["file"]


def test_a_link_is_replaced_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("target")
    (tmp_path / "link").symlink_to("target")

    replace_file(tmp_path / "link", b"file")
    was_link = (tmp_path / "link").is_symlink()
    replace_with_link(tmp_path / "link", "elsewhere")

    assert not was_link
    assert (tmp_path / "target").read_text() == "target"
    assert (tmp_path / "link").readlink() == Path("elsewhere")


def test_only_old_temporary_files_are_removed(tmp_path: Path) -> None:
    old, fresh, other = (tmp_path / name for name in (".clew-1.tmp", ".clew-2.tmp", "x.tmp"))
    for path in (old, fresh, other):
        path.write_text("")
    os.utime(old, (1, 1))
    os.utime(other, (1, 1))

    remove_stale_temporaries(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == [".clew-2.tmp", "x.tmp"]


def test_a_folder_is_removed_only_if_no_file_of_anyone_else_is_in_it(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".clew-1.tmp").write_text("")
    (tmp_path / "theirs" / "note").write_text("")

    remove_empty_folder(tmp_path / "ours")
    with pytest.raises(OSError, match="not empty"):
        remove_empty_folder(tmp_path / "theirs")

    assert not (tmp_path / "ours").exists()
    assert len(list((tmp_path / "theirs").iterdir())) == 2


def test_missing_folders_are_made_for_their_owner_only(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "one" / "two")

    assert mode_of(tmp_path / "one") == mode_of(tmp_path / "one" / "two") == 0o700


def test_a_folder_that_is_locked_times_out_and_is_free_afterwards(tmp_path: Path) -> None:
    with folder_lock(tmp_path, timeout=0), pytest.raises(TimeoutError):  # noqa: SIM117
        with folder_lock(tmp_path, timeout=0.01):
            pass

    with folder_lock(tmp_path, timeout=0):
        pass


def test_a_file_is_locked_through_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        with file_lock(tmp_path / "not" / "there"), pytest.raises(TimeoutError):
            lock_descriptor(handle, timeout=0.01)
    finally:
        os.close(handle)


def test_a_regular_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")

    assert read_regular(tmp_path / "file") == b"0123456789"
    assert read_regular(tmp_path / "file", limit=4) == b"0123"
    with open_regular(tmp_path / "file") as stream:
        assert (stream.read(2), stream.read()) == (b"01", b"23456789")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("secret")
    (tmp_path / "link").symlink_to("file")

    with pytest.raises(OSError, match="symbolic links") as raised:
        read_regular(tmp_path / "link")

    assert raised.value.errno == errno.ELOOP


@pytest.mark.timeout(10)
def test_pipes_and_folders_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(NotRegularFile):
            read_regular(path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing")
