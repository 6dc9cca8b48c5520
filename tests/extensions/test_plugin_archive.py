"""Archives from outside: unpacked inside their folder, or refused with a reason."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.extensions.plugins.archive import find_top, unpack
from clew.extensions.plugins.content import PluginLimits, compute_hash, copy_tree

pytestmark = pytest.mark.req("PLG-1")

SMALL = PluginLimits(files=5, bytes=1_000, file_bytes=600, depth=4)


def tar_of(path: Path, *members: tarfile.TarInfo, data: bytes = b"x") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o755
    return info


def zip_of(path: Path, name: str, data: bytes = b"x", mode: int = 0) -> Path:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(info, data)
    return path


HOSTILE: dict[str, Callable[[Path], Path]] = {
    "parent": lambda p: tar_of(p, member("../evil")),
    "absolute": lambda p: tar_of(p, member("/tmp/evil")),
    "inner parent": lambda p: tar_of(p, member("a/../../evil")),
    "backslashes": lambda p: zip_of(p, "..\\evil"),
    "drive": lambda p: zip_of(p, "C:/evil"),
    "link outside": lambda p: tar_of(p, member("a", tarfile.SYMTYPE, "../../etc/passwd")),
    "absolute link": lambda p: tar_of(p, member("a", tarfile.SYMTYPE, "/etc/passwd")),
    "through a link": lambda p: tar_of(
        p, member("b", tarfile.DIRTYPE), member("a", tarfile.SYMTYPE, "b"), member("a/evil")
    ),
    "hard link": lambda p: tar_of(p, member("f"), member("a", tarfile.LNKTYPE, "f")),
    "device": lambda p: tar_of(p, member("a", tarfile.CHRTYPE)),
    "pipe": lambda p: tar_of(p, member("a", tarfile.FIFOTYPE)),
    "twice": lambda p: tar_of(p, member("a"), member("a")),
    "file as a folder": lambda p: tar_of(p, member("a"), member("a/b")),
    "zip link": lambda p: zip_of(p, "a", b"/etc/passwd", stat.S_IFLNK | 0o777),
    "zip device": lambda p: zip_of(p, "a", b"", stat.S_IFCHR | 0o600),
    "too many files": lambda p: tar_of(p, *(member(f"f{n}") for n in range(9))),
    "too many folders": lambda p: tar_of(p, member("a/b/c"), member("d/e/f"), member("g/h")),
    "too deep": lambda p: tar_of(p, member("a/b/c/d/e")),
    "a bomb": lambda p: zip_of(p, "zeros", bytes(10_000_000)),
    "too much": lambda p: tar_of(p, member("a"), member("b"), data=bytes(590)),
    "an empty name": lambda p: put(p, zip_of(p, "Q").read_bytes().replace(b"Q", b"\0")),
    "a zip of the future": lambda p: put(p, patch(zip_of(p, "a"), b"PK\1\2", 6, 255)),
    "no archive": lambda p: put(p, b"plain text"),
    "torn": lambda p: put(p, tar_of(p, member("a"), data=os.urandom(500)).read_bytes()[:200]),
}


def header_bomb(kind: bytes) -> bytes:
    info = tarfile.TarInfo("a")
    info.type, info.size = kind, 1_000_000
    return info.tobuf(tarfile.USTAR_FORMAT) + bytes(1_000_448)


def patch(archive: Path, mark: bytes, distance: int, value: int) -> bytes:
    data = bytearray(archive.read_bytes())
    data[data.index(mark) + distance] = value
    return bytes(data)


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_writes_nothing_outside(name: str, tmp_path: Path) -> None:
    archive = HOSTILE[name](tmp_path / "archive")
    inside = tmp_path / "inside"
    inside.mkdir()

    with pytest.raises(ConfigError):
        unpack(archive, inside / "target", limits=SMALL)

    assert {one.name for one in tmp_path.iterdir()} == {"archive", "inside"}
    assert {one.name for one in inside.iterdir()} == {"target"}


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_unpacks_to_much_is_refused_before_it_is_read(
    kind: bytes, tmp_path: Path
) -> None:
    archive = put(tmp_path / "archive", gzip.compress(header_bomb(kind)))

    with pytest.raises(ConfigError, match="headers that are too large"):
        unpack(archive, tmp_path / "target")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_files_programs_folders_and_inner_links_are_unpacked(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    if kind == "tar":
        tar_of(path, member("top/run.sh"), member("top/link", tarfile.SYMTYPE, "run.sh"))
    else:
        zip_of(path, "top/run.sh", mode=stat.S_IFREG | 0o4755)

    unpack(path, tmp_path / "target")

    top = find_top(tmp_path / "target")
    assert top.name == "top"
    assert stat.S_IMODE((top / "run.sh").stat().st_mode) == 0o755
    if kind == "tar":
        assert (top / "link").readlink() == Path("run.sh")


@given(
    names=st.lists(
        st.text(st.sampled_from("ab./\\\0é"), min_size=1, max_size=8), min_size=1, max_size=4
    ),
    target=st.text(st.sampled_from("ab./"), min_size=1, max_size=8),
)
def test_no_names_lead_out_of_the_folder(
    names: list[str], target: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    infos = [member(name) for name in names]
    archive = tar_of(folder / "archive", member("link", tarfile.SYMTYPE, target), *infos)

    with suppress(ConfigError):
        unpack(archive, folder / "target")

    assert {one.name for one in folder.iterdir()} == {"archive", "target"}
    link = folder / "target" / "link"
    if link.is_symlink():
        assert link.resolve().is_relative_to(folder / "target")


@given(
    kind=st.sampled_from(["tar", "zip"]),
    places=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    kept=st.integers(1, 10_000),
)
def test_a_damaged_archive_is_unpacked_or_refused_with_a_reason(
    kind: str,
    places: list[tuple[int, int]],
    kept: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "archive"
    if kind == "zip":
        zip_of(path, "é/file.md", b"hello" * 30)
    else:
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(member("é" * 60))
    data = bytearray(path.read_bytes())
    for place, value in places:
        data[place % len(data)] = value
    path.write_bytes(data[:kept])

    with suppress(ConfigError, OSError):
        unpack(path, folder / "target")


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_copy_keeps_inner_links_and_resolves_those_to_shared_files(tmp_path: Path) -> None:
    shop, plugin = tmp_path / "shop", tmp_path / "shop" / "plugins" / "a"
    write(shop / "shared" / "rules.md", "rules")
    write(plugin / "own.md", "own")
    (plugin / "shared").symlink_to("../../shared")
    (plugin / "again.md").symlink_to("own.md")
    write(plugin / ".git" / "config")

    copy_tree(plugin, tmp_path / "copy", root=shop)

    copy = tmp_path / "copy"
    assert sorted(one.name for one in copy.iterdir()) == ["again.md", "own.md", "shared"]
    assert (copy / "again.md").is_symlink()
    assert not (copy / "shared").is_symlink()
    assert (copy / "shared" / "rules.md").read_text(encoding="utf-8") == "rules"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside.md", "..", "../../../gone"])
def test_a_link_out_of_the_plugin_or_around_it_is_not_copied(target: str, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    write(tmp_path / "outside.md", "secret")
    write(shop / "a" / "own.md")
    (shop / "a" / "link").symlink_to(target)

    with pytest.raises(ConfigError):
        copy_tree(shop / "a", tmp_path / "copy", root=shop)


def test_a_pipe_is_not_copied_and_does_not_block(tmp_path: Path) -> None:
    write(tmp_path / "a" / "own.md")
    os.mkfifo(tmp_path / "a" / "pipe")

    with pytest.raises(ConfigError, match="not a regular file"):
        copy_tree(tmp_path / "a", tmp_path / "copy", root=tmp_path / "a")


def test_the_hash_depends_on_names_contents_links_and_programs(tmp_path: Path) -> None:
    def fresh(name: str) -> Path:
        write(tmp_path / name / "sub" / "f", "text")
        (tmp_path / name / "link").symlink_to("sub/f")
        return tmp_path / name

    changes: list[Callable[[Path], object]] = [
        lambda p: write(p / "sub" / "f", "texT"),
        lambda p: write(p / "new"),
        lambda p: (p / "sub" / "f").chmod(0o755),
        lambda p: (p / "sub" / "f").rename(p / "sub" / "g"),
        lambda p: (p / "link").rename(p / "other"),
        lambda p: (p / "empty").mkdir(),
    ]
    base = compute_hash(fresh("base"))
    changed = []
    for number, change in enumerate(changes):
        folder = fresh(f"other{number}")
        change(folder)
        changed.append(compute_hash(folder))

    assert compute_hash(fresh("same")) == base
    assert len({base, *changed}) == 7
    write(tmp_path / "base" / "sub" / "__pycache__" / "x.pyc")
    assert compute_hash(tmp_path / "base", ignored=["__pycache__"]) == base
