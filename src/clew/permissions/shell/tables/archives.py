"""Programs that pack and unpack files."""

from msgspec.structs import replace

from clew.permissions.shell.arguments import Operands, Program, letters
from clew.permissions.shell.programs import word_set

_COMPRESSOR = Program(
    operands=Operands.WRITE,
    flags=letters("cdfhklLnNqtvz123456789") | word_set("--keep --stdout --force --decompress"),
    values=word_set("-S --suffix"),
    recurses=word_set("-r --recursive"),
    follows=word_set("-f --force"),
    # `x` becomes `x.gz`, and `x.gz` becomes `x`.
    writes_beside=True,
)
_ZIP_LISTS = word_set("-@ --names-stdin -R --recurse-patterns")

ARCHIVES: dict[str, Program] = {
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2"), _COMPRESSOR),
    **dict.fromkeys(
        ("xz", "unxz", "lzma", "unlzma"),
        replace(
            _COMPRESSOR, lists=word_set("--files --files0"), optional=word_set("--files --files0")
        ),
    ),
    "lz4": replace(_COMPRESSOR, values=frozenset()),
    **dict.fromkeys(
        ("zstd", "unzstd"),
        replace(
            _COMPRESSOR,
            values=frozenset(),
            optional=letters("MTB"),
            reads=letters("D") | word_set("--patch-from"),
            lists=word_set("--filelist"),
            writes=letters("o"),
            folders=word_set("--output-dir-flat --output-dir-mirror"),
        ),
    ),
    # How the operands are used depends on the operation, see `file_arguments`.
    "tar": Program(
        operands=Operands.READ,
        flags=letters("AcdjJklmMnoOpPrRsStuUvwWxzZahBGi")
        | word_set("""
            --create --extract --get --list --append --update --diff --compare --delete --catenate
            --concatenate --gzip --bzip2 --xz --zstd --verbose --to-stdout --keep-old-files
            --overwrite --absolute-names --preserve-permissions --no-same-owner --same-owner
            --no-recursion --dereference --hard-dereference --wildcards --numeric-owner
        """),
        follows=word_set("-h --dereference"),
        values=letters("bHKLNV")
        | word_set("""
            --exclude --strip-components --transform --xform --owner --group --mode --mtime
            --blocking-factor --format --label --checkpoint --record-size --sort --newer
        """),
        optional=word_set("--one-top-level --checkpoint --occurrence --exclude-vcs"),
        reads=word_set("-X --exclude-from"),
        lists=word_set("-T --files-from"),
        # An index of the names, a snapshot for incremental archives, the number of a volume.
        writes=word_set("-f --file -g --listed-incremental --index-file --volno-file"),
        folders=word_set("-C --directory"),
        modifies=word_set("--remove-files --recursive-unlink --unlink-first"),
        executes=word_set("""
            -I -F --use-compress-program --to-command --checkpoint-action --info-script
            --new-volume-script --rsh-command --rmt-command
        """),
        recursive=True,
    ),
    "zip": Program(
        operands=Operands.FIRST_WRITTEN,
        flags=letters("0123456789qvruyjlDXT") | word_set("--quiet --recurse-paths"),
        values=letters("nPtixs") | word_set("--exclude --include --password"),
        writes=word_set("-O --output-file"),
        folders=word_set("-b --temp-path"),
        # Names from the standard input, and patterns for the whole folder.
        lists=_ZIP_LISTS,
        optional=_ZIP_LISTS,
        modifies=word_set("-m --move"),
        # Tests the new archive with a command.
        executes=word_set("-TT --unzip-command"),
        recursive=True,
        # Unless `-y` is given.
        follows_always=True,
        writes_beside=True,
        temporary="zi*",
    ),
    "unzip": Program(
        flags=letters("aBCjKLMnoqVXuf"),
        values=letters("Px"),
        folders=letters("d"),
        writes_tree=".",
        inspects=letters("lptvZc"),
    ),
    "cpio": Program(
        operands=Operands.WRITE,
        flags=letters("aABcdiklLmnoprStuvV"),
        values=letters("CHMR"),
        reads=word_set("-E --pattern-file"),
        writes=letters("FIO") | word_set("--file"),
        folders=word_set("-D --directory"),
        executes=word_set("--rsh-command"),
        reads_input_names=True,
        writes_tree=".",
    ),
    "pax": Program(
        operands=Operands.WRITE,
        flags=letters("acdDiklLnprtuvwXYzZ"),
        values=letters("bBEgoTUx"),
        writes=letters("f"),
        executes=letters("s"),
        reads_input_names=True,
        recursive=True,
        writes_tree=".",
    ),
    # Values are attached to their options.
    **dict.fromkeys(
        ("7z", "7za", "7zr", "7zz"),
        Program(
            operands=Operands.WRITE,
            flags=letters("ybr"),
            optional=letters("opmtsvwxi") | word_set("-ao -bb -bs -sdel -si -so -spf -ssw"),
            folders=letters("ow"),
            lists_after_at=True,
            recursive=True,
            writes_tree=".",
            inspects=letters("ltc") | word_set("l t h b"),
            follows_always=True,
            writes_beside=True,
        ),
    ),
}
