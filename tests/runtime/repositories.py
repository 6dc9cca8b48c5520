"""Real git repositories for tests, untouched by the settings of this machine."""

import os
import subprocess
from pathlib import Path

_ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}


def git(folder: Path, *arguments: str) -> str:
    """Run git as a user would, and return what it prints."""
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env=_ENV,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return os.fsdecode(done.stdout).rstrip("\n")


def make_repository(folder: Path) -> Path:
    """Make a repository with a commit: a text, a script, a folder, and ignored files."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    (folder / "README.md").write_text("one\ntwo\nthree\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("print('main')\n")
    (folder / "src" / "deep" / "data.bin").write_bytes(bytes(range(256)))
    (folder / "link").symlink_to("README.md")
    commit_all(folder, "first")
    return folder


def commit_all(folder: Path, message: str) -> str:
    """Commit everything and return the id of the commit."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def read_files(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return kind and content of every file below a folder, git's own left out."""
    found = {}
    for place, folders, names in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*names, *(one for one in folders if Path(place, one).is_symlink())):
            path = Path(place, name)
            if name == ".git":
                continue
            relative = os.path.relpath(path, folder)
            if path.is_symlink():
                found[relative] = ("link", os.fsencode(path.readlink()))
            else:
                kind = "program" if path.stat().st_mode & 0o100 else "file"
                found[relative] = (kind, path.read_bytes())
    return found
