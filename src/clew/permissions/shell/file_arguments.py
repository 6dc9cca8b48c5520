"""Finds the files that well-known programs read and write, from their arguments."""

import re
from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from clew.permissions.shell.command_line import FileAccess, ShellWord, program_name
from clew.permissions.shell.programs import word_set


class FileRole(Enum):
    """What a program does with its file arguments."""

    READS = 0
    WRITES = 1
    LAST_WRITTEN = 2
    """Writes the last one, reads the others."""
    FIRST_WRITTEN = 3
    """Writes the first one, reads the others."""


class FileArguments(Struct, frozen=True, kw_only=True):
    """How to find the files among the arguments of a program."""

    role: FileRole
    skip: int = 0
    """Leading operands that are not files, such as a pattern."""
    skip_unless: frozenset[str] = frozenset()
    """Options that replace those operands."""
    values: frozenset[str] = frozenset()
    """Options whose value is not a file."""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    """Options whose value is a file."""


_PATTERN = FileArguments(
    role=FileRole.READS,
    skip=1,
    skip_unless=word_set("-e -f --regexp --file --files"),
    values=word_set(
        "-e -m -A -B -C --regexp --include --exclude --exclude-dir -g --glob -t --type"
    ),
    reads=word_set("-f --file"),
)
_READERS = FileArguments(role=FileRole.READS)
_WRITERS = FileArguments(role=FileRole.WRITES)
_COPIES = FileArguments(
    role=FileRole.LAST_WRITTEN, values=word_set("-S -m -o -g -e"), writes=word_set("-t")
)

_FILES: dict[str, FileArguments] = {
    **dict.fromkeys(
        word_set("""
            cat tac head tail less more bat nl od xxd hexdump hd strings base64 base32 md5sum
            sha1sum sha224sum sha256sum sha512sum b2sum cksum sum wc cut paste column fold fmt rev
            diff cmp comm join file uniq split pr expand unexpand shuf iconv zcat bzcat xzcat
            source . yq look view
        """),
        _READERS,
    ),
    **dict.fromkeys(word_set("grep egrep fgrep zgrep rg ag ack jq sed awk gawk mawk"), _PATTERN),
    **dict.fromkeys(
        word_set("""
            tee touch truncate rm unlink rmdir shred mkdir patch dos2unix unix2dos gzip gunzip
            bzip2 bunzip2 xz unxz zstd mkfifo mv
        """),
        _WRITERS,
    ),
    **dict.fromkeys(
        ("chmod", "chown", "chgrp"),
        FileArguments(role=FileRole.WRITES, skip=1, skip_unless=word_set("--reference")),
    ),
    **dict.fromkeys(("cp", "install", "rsync", "scp", "ln", "link", "ditto"), _COPIES),
    "sort": FileArguments(
        role=FileRole.READS, values=word_set("-k -t -S --key"), writes=word_set("-o --output -T")
    ),
    "curl": FileArguments(
        role=FileRole.READS,
        values=word_set(
            "-X -H -u -A -b -m -e --request --header --user --max-time --url -d --data"
        ),
        reads=word_set("-T --upload-file -K --config -E --cert --key --cacert"),
        writes=word_set("-o --output -D --dump-header -c --cookie-jar --output-dir --trace"),
    ),
    "wget": FileArguments(
        role=FileRole.READS,
        values=word_set("-t -T -w -U --header --user --password --method"),
        reads=word_set("-i --input-file --post-file --body-file"),
        writes=word_set("-O -o -a -P --output-document --output-file --directory-prefix"),
    ),
    "zip": FileArguments(role=FileRole.FIRST_WRITTEN),
    "unzip": FileArguments(role=FileRole.READS, writes=word_set("-d")),
    "tar": FileArguments(
        role=FileRole.READS, values=word_set("--exclude -b"), writes=word_set("-C --directory")
    ),
}
RECURSIVE = re.compile(r"-[A-Za-z]*[rRa]|--recursive|--archive|--dereference-recursive")
"""Options that make a program descend into folders."""
ALWAYS_RECURSIVE = word_set("rg ag ack tar zip rsync find fd")
TAKES_PATTERN = word_set("grep egrep fgrep zgrep rg ag ack")
"""Programs that search the current folder if no file follows the pattern."""

_ATTACHED = re.compile(r"(-[A-Za-z])(.+)", re.DOTALL)
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]{2,}:|[a-z]+://")
_DEVICE = re.compile(r"/dev/(?:null|zero|full|u?random|stdin|stdout|stderr|tty|fd/\d+)")
_IN_PLACE = re.compile(r"-[nErzsu]*i|--in-place")
_CREATING = frozenset({"-c", "--create", "-r", "--append", "-u", "--update"})


def find_files(words: Sequence[ShellWord]) -> tuple[FileAccess, ...]:
    """Return the files that a command names, if this module knows its program."""
    program = program_name(words)
    if program == "dd":
        return tuple(_dd_files(words[1:]))
    files = _FILES.get(program)
    if files is None or len(words) < 2:
        return ()
    if program == "tar" and not words[1].text.startswith("-"):
        bundle = ShellWord(f"-{words[1].text}", words[1].written, words[1].known)
        words = (words[0], bundle, *words[2:])
    found = [*_option_files(words[1:], files), *_operand_files(program, words, files)]
    if program == "tar":
        found += _tar_archive(words[1:])
    return tuple(touch for touch in found if not _is_no_file(touch.path))


def knows_files_of(program: str) -> bool:
    """Can `find_files` find the files of this program?"""
    return program == "dd" or program in _FILES


def is_device(word: ShellWord) -> bool:
    """Is this path a device such as `/dev/null`, rather than a file?"""
    return bool(_DEVICE.fullmatch(word.text))


def _is_no_file(word: ShellWord) -> bool:
    return word.text == "-" or is_device(word) or bool(_REMOTE.match(word.text))


def _dd_files(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    for word in words:
        key, equals, value = word.text.partition("=")
        path = ShellWord(value, value, known=word.known)
        if equals and key in ("if", "of") and not _is_no_file(path):
            yield FileAccess(path=path, writes=key == "of")


def _option_files(words: Sequence[ShellWord], files: FileArguments) -> Iterator[FileAccess]:
    takes_file = files.reads | files.writes
    for at, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        attached = None if equals else _ATTACHED.fullmatch(word.text)
        if attached and attached[1] in takes_file:
            name, value = attached[1], attached[2]
        if name not in takes_file:
            continue
        if value:
            yield FileAccess(path=ShellWord(value, value, word.known), writes=name in files.writes)
        elif at + 1 < len(words):
            yield FileAccess(path=words[at + 1], writes=name in files.writes)


def _operand_files(
    program: str, words: Sequence[ShellWord], files: FileArguments
) -> Iterator[FileAccess]:
    operands = _operands(words[1:], files)
    options = [word.text for word in words[1:] if word.text.startswith("-")]
    role = files.role
    if program == "sed" and any(_IN_PLACE.match(option) for option in options):
        role = FileRole.WRITES
    if role is FileRole.LAST_WRITTEN and any(
        option.startswith(("-t", "--target")) for option in options
    ):
        role = FileRole.READS
    last = len(operands) - 1
    for at, word in enumerate(operands):
        match role:
            case FileRole.READS:
                writes = False
            case FileRole.WRITES:
                writes = True
            case FileRole.LAST_WRITTEN:
                writes = at == last
            case FileRole.FIRST_WRITTEN:
                writes = at == 0
        yield FileAccess(path=word, writes=writes)


def _operands(words: Sequence[ShellWord], files: FileArguments) -> list[ShellWord]:
    found: list[ShellWord] = []
    takes_word = files.values | files.reads | files.writes
    skip, only_operands, at = files.skip, False, 0
    while at < len(words):
        text = words[at].text
        if only_operands or not text.startswith("-") or text == "-":
            found.append(words[at])
        elif text == "--":
            only_operands = True
        else:
            skip = 0 if text.partition("=")[0] in files.skip_unless else skip
            at += text in takes_word
        at += 1
    return found[skip:]


def _tar_archive(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    """Yield the archive of `tar`: written when created or extended, read otherwise."""
    first = words[0].text if words else ""
    bundled = first if not first.startswith("--") else ""
    writes = bool(set("cru") & set(bundled)) or any(word.text in _CREATING for word in words)
    for at, word in enumerate(words):
        is_cluster = at == 0 or (word.text.startswith("-") and not word.text.startswith("--"))
        if word.text.startswith("--file="):
            yield FileAccess(
                path=ShellWord(word.text[7:], word.text[7:], word.known), writes=writes
            )
        elif (word.text == "--file" or (is_cluster and word.text.endswith("f"))) and at + 1 < len(
            words
        ):
            yield FileAccess(path=words[at + 1], writes=writes)
