"""Programs that create, copy, move, change and remove files."""

from msgspec.structs import replace

from clew.permissions.shell.arguments import Operands, Program, letters
from clew.permissions.shell.programs import word_set

_WRITER = Program(operands=Operands.WRITE)
_COPY = Program(
    operands=Operands.LAST_WRITTEN,
    flags=letters("bfiLnPpsTuvxHdlZ")
    | word_set("""
        --force --interactive --dereference --no-dereference --no-clobber --preserve --symbolic-link
        --link --no-target-directory --update --verbose --one-file-system --attributes-only
        --strip-trailing-slashes --parents --remove-destination
    """),
    values=word_set("-S --suffix --sparse --no-preserve"),
    optional=word_set("--backup --preserve --reflink --update --context"),
    folders=word_set("-t --target-directory"),
    recurses=letters("rRa") | word_set("--recursive --archive"),
    follows=letters("LH") | word_set("--dereference"),
    writes_beside=True,
)
_MODE = Program(
    operands=Operands.WRITE,
    text_operands=1,
    text_options=word_set("--reference"),
    values=word_set("--reference --from"),
    recurses=word_set("-R --recursive"),
    follows=letters("LH") | word_set("--dereference"),
    # Without the right to enter a folder, nothing in it is reachable.
    recursive=True,
)

COPIES: dict[str, Program] = {
    **dict.fromkeys(word_set("unlink rmdir mkfifo mknod dos2unix unix2dos chattr"), _WRITER),
    "setfattr": replace(_WRITER, values=letters("nvx"), lists=word_set("--restore")),
    **dict.fromkeys(("chmod", "chown", "chgrp"), _MODE),
    "setfacl": replace(
        _WRITER,
        values=letters("mx"),
        reads=letters("MX"),
        lists=word_set("--restore"),
        recurses=word_set("-R --recursive"),
    ),
    "tee": replace(_WRITER, flags=letters("aip") | word_set("--append --ignore-interrupts")),
    "touch": replace(
        _WRITER,
        flags=letters("achmf"),
        values=letters("dt") | word_set("--date --time"),
        reads=word_set("-r --reference"),
    ),
    "truncate": replace(
        _WRITER, flags=letters("co"), values=word_set("-s --size"), reads=word_set("-r --reference")
    ),
    "mkdir": replace(
        _WRITER, flags=letters("pvZ"), values=word_set("-m --mode"), optional=word_set("--context")
    ),
    "rm": replace(
        _WRITER,
        flags=letters("fiIdv"),
        recurses=letters("rR") | word_set("--recursive"),
        optional=word_set("--interactive --preserve-root"),
    ),
    "shred": replace(
        _WRITER,
        flags=letters("fuvxz") | word_set("--remove --zero"),
        values=letters("ns") | word_set("--iterations --size"),
        optional=word_set("--remove"),
        reads=word_set("--random-source"),
    ),
    # Whole folders move, with everything that they contain.
    "mv": replace(_COPY, operands=Operands.MOVED, recursive=True),
    "cp": _COPY,
    "install": replace(
        _COPY,
        flags=letters("bcCDpsTv") | word_set("--compare --preserve-timestamps --strip --verbose"),
        values=letters("gmoS") | word_set("--group --mode --owner --suffix"),
        modifies=word_set("-d --directory"),
        executes=word_set("--strip-program"),
    ),
    # A link gives all that its target contains another name.
    "ln": replace(
        _COPY,
        flags=letters("bdfFiLnPrsTv")
        | word_set("--symbolic --force --no-dereference --relative --logical --physical"),
        recursive=True,
    ),
    "link": replace(_COPY, recursive=True),
    "ditto": replace(_COPY, recursive=True),
    "split": Program(
        operands=Operands.SECOND_WRITTEN,
        flags=letters("deux") | word_set("--elide-empty-files --unbuffered --verbose"),
        values=letters("abClnt")
        | word_set("--bytes --lines --number --suffix-length --separator --additional-suffix"),
        optional=word_set("--numeric-suffixes --hex-suffixes"),
        executes=word_set("--filter"),
        writes_tree=".",
        writes_beside=True,
    ),
    "csplit": Program(
        flags=letters("kqsz"),
        values=letters("bn") | word_set("--suffix-format --digits"),
        folders=word_set("-f --prefix"),
        writes_tree=".",
    ),
    # The patch itself says which files change.
    "patch": Program(
        operands=Operands.WRITE,
        flags=letters("bcefEnNRsTuvZ"),
        values=letters("BDFgpVxYz") | word_set("--strip --fuzz --prefix --suffix"),
        reads=word_set("-i --input"),
        writes=word_set("-o --output -r --reject-file"),
        folders=word_set("-d --directory"),
        recursive=True,
        default=".",
        writes_tree=".",
        writes_beside=True,
    ),
}
