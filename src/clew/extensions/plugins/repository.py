"""Fetches a folder, or one file, of a git repository at one commit.

Git runs as in `clew.runtime.git`: without hooks, filters and prompts. It may use only encrypted
protocols, or that of an address on this machine. It gets an empty repository, so that the fetched
one cannot configure anything. The files come out as they are stored, through the same checks as
every other archive.
"""

from pathlib import Path
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from msgspec import Struct

from clew.core.errors import BackgroundTaskError, ConfigError
from clew.core.redaction import redact
from clew.extensions.plugins.archive import unpack
from clew.extensions.plugins.content import LIMITS, show
from clew.extensions.plugins.sources import GitSource, describe_source, find_protocol
from clew.runtime.git import Git, describe_failure

FETCH_SECONDS = 300.0
"""How long one repository may take."""
_MAX_LIST = 20_000_000
_FILE_MODES = (b"100644", b"100755", b"100664", b"120000")
_AS_STORED = "* -export-ignore -export-subst -filter -text -eol -ident -working-tree-encoding\n"
"""Attributes that win over those in the repository, which could leave files out or change them."""
_VARIABLES = {
    "GCM_INTERACTIVE": "never",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ASKPASS": "",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
}


class Fetched(Struct, frozen=True, kw_only=True):
    """One commit of a repository, on this machine."""

    git: Git
    source: GitSource
    commit: str

    async def read_file(self, path: str, *, limit: int) -> bytes | None:
        """Return a file of the commit; None if there is none.

        Raises:
            ConfigError: It is too large.
        """
        inside = f"{self.source.folder}/{path}".lstrip("/")
        try:
            found = await self.git.run(
                "cat-file", "blob", f"{self.commit}:{inside}", check=False, limit=limit
            )
        except BackgroundTaskError as error:
            raise ConfigError(f"{inside} is larger than {limit:,} bytes") from error
        return found.out if found.code == 0 else None

    async def unpack(self, staging: Path) -> tuple[Path, Path]:
        """Unpack the folder of the source; returns it and the folder that links may lead to.

        Raises:
            ConfigError: The folder does not exist, is too large, or is not acceptable.
        """
        folder = self.source.folder
        has_links = await self._check_size(folder)
        # A link may lead to files that the plugins of a marketplace share.
        inside = [folder] if folder and not has_links else []
        archive, tree = staging / "tree.tar", staging / "tree"
        await self.git.run(
            "archive", "--format=tar", f"--output={archive}", self.commit, "--", *inside
        )
        await to_thread.run_sync(lambda: unpack(archive, tree))
        await to_thread.run_sync(archive.unlink)
        return tree / folder, tree

    async def _check_size(self, folder: str) -> bool:
        """Check the limits before anything is written; returns whether there are links."""
        tree = f"{self.commit}:{folder}" if folder else self.commit
        where = show(describe_source(self.source))
        try:
            listed = await self.git.run(
                "ls-tree", "-r", "-l", "-z", "--full-tree", tree, check=False, limit=_MAX_LIST
            )
        except BackgroundTaskError as error:
            raise ConfigError(f"{where} has more than {LIMITS.files:,} files") from error
        if listed.code:
            raise ConfigError(f"{where}: there is no such folder")
        rows = [row.partition(b"\t")[0].split() for row in listed.out.split(b"\0") if row]
        if len(rows) > LIMITS.files:
            raise ConfigError(f"{where} has more than {LIMITS.files:,} files")
        # A submodule has no size; it is an empty folder here.
        if sum(int(row[3]) for row in rows if row[0] in _FILE_MODES) > LIMITS.bytes:
            raise ConfigError(f"{where} has more than {LIMITS.bytes:,} bytes")
        return any(row[0] == b"120000" for row in rows)


async def fetch(source: GitSource, staging: Path) -> Fetched:
    """Fetch one commit of a repository, without its history where the server allows that.

    Args:
        source: The repository.
        staging: A folder for it.

    Raises:
        ConfigError: It cannot be reached, or has no such branch or commit.
    """
    folder = staging / "repository.git"
    variables = {**_VARIABLES, "GIT_ALLOW_PROTOCOL": _allow(find_protocol(source.url))}
    try:
        with anyio.fail_after(FETCH_SECONDS):
            git = await Git.open(staging, variables)
            await git.run("init", "--quiet", "--bare", "--template=", str(folder))
            # Named, so that git does not look for a repository around it.
            git = await Git.open(folder, {**variables, "GIT_DIR": str(folder)})
            await to_thread.run_sync(_write_attributes, folder)
            commit = await _fetch_commit(git, source)
    except TimeoutError as error:
        raise ConfigError(
            f"{_show_source(source)} did not answer within {FETCH_SECONDS:.0f} seconds; try again"
        ) from error
    except BackgroundTaskError as error:
        raise ConfigError(f"{_show_source(source)} cannot be fetched: {error}") from error
    return Fetched(git=git, source=source, commit=commit)


async def _fetch_commit(git: Git, source: GitSource) -> str:
    wanted = source.commit or source.ref or "HEAD"
    common = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-commit-graph")
    done = await git.run(*common, "--depth=1", "--", source.url, wanted, check=False)
    if done.code and source.commit:
        # Some servers send only branches; then the commit may be in the history of one.
        done = await git.run(
            *common, "--", source.url, source.ref or "+refs/heads/*:refs/heads/*", check=False
        )
    if done.code:
        raise ConfigError(
            f"{_show_source(source)} cannot be fetched: {redact(describe_failure(done))}."
            f" {_advise(source, done.error)}"
        )
    name = source.commit or "FETCH_HEAD"
    found = await git.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    if found.code:
        raise ConfigError(f"{_show_source(source)}: the repository has no commit {wanted[:40]}")
    return found.line


def _allow(protocol: str) -> str:
    # Many users have git replace https by ssh (`url.….insteadOf`); both are encrypted.
    return "https:ssh" if protocol in ("https", "ssh") else protocol


def _advise(source: GitSource, error: str) -> str:
    if "remote ref" in error:
        return "Check the name of the branch or tag."
    if find_protocol(source.url) == "ssh":
        return "Check the address, and that your SSH agent has a key for it."
    host = urlsplit(source.url).hostname or "it"
    return f"Check the address; a private repository on {host} needs a git credential helper."


def _show_source(source: GitSource) -> str:
    return show(describe_source(source))


def _write_attributes(folder: Path) -> None:
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info" / "attributes").write_text(_AS_STORED, encoding="ascii")
