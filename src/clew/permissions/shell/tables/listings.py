"""Programs that show names, properties of files and facts about the system, never content."""

from clew.permissions.shell.arguments import Operands, Program, letters
from clew.permissions.shell.programs import word_set

_TEXT = Program(operands=Operands.TEXT, read_only=True)

LISTINGS: dict[str, Program] = {
    "ls": Program(
        operands=Operands.NAMES,
        flags=letters("aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1")
        | word_set("""
            --all --almost-all --directory --human-readable --inode --no-group --numeric-uid-gid
            --recursive --reverse --size --group-directories-first --full-time --author --si
            --show-control-chars --literal --kibibytes
        """),
        values=letters("IwT")
        | word_set("--ignore --hide --width --time-style --sort --time --block-size --format"),
        optional=word_set("--color --classify --indicator-style --hyperlink"),
        follows=letters("HL") | word_set("--dereference --dereference-command-line"),
        read_only=True,
    ),
    "stat": Program(
        operands=Operands.NAMES,
        flags=letters("fLtZx") | word_set("--terse --dereference --file-system"),
        values=word_set("-c --format --printf"),
        read_only=True,
    ),
    # `-R` with `-o` and `-H` writes an index of each folder.
    "tree": Program(
        operands=Operands.NAMES,
        flags=letters("adfixqNQpugshDFrtcnCSAJXvU")
        | word_set("--noreport --dirsfirst --gitignore --prune --du --si --inodes"),
        values=letters("LPI") | word_set("--filelimit --charset --timefmt --sort"),
        writes=letters("o"),
        follows=letters("lRH"),
        read_only=True,
    ),
    "readlink": Program(
        operands=Operands.NAMES,
        flags=letters("femnqsvz") | word_set("--canonicalize"),
        read_only=True,
    ),
    "realpath": Program(
        operands=Operands.NAMES,
        flags=letters("emLPqsz"),
        values=word_set("--relative-to --relative-base"),
        read_only=True,
    ),
    "df": Program(
        operands=Operands.NAMES,
        flags=letters("ahHiklPT") | word_set("--human-readable --total --inodes"),
        values=letters("Btx"),
        read_only=True,
    ),
    "basename": Program(
        operands=Operands.TEXT,
        flags=letters("az") | word_set("--multiple --zero"),
        values=word_set("-s --suffix"),
        read_only=True,
    ),
    "dirname": Program(operands=Operands.TEXT, flags=letters("z"), read_only=True),
    "which": Program(operands=Operands.TEXT, flags=letters("as"), read_only=True),
    "type": Program(operands=Operands.TEXT, flags=letters("aftpP"), read_only=True),
    "seq": Program(
        operands=Operands.TEXT,
        flags=letters("w"),
        values=letters("sf") | word_set("--separator --format"),
        read_only=True,
    ),
    "uname": Program(operands=Operands.TEXT, flags=letters("asnrvmpio"), read_only=True),
    "id": Program(operands=Operands.TEXT, flags=letters("ugGnrz"), read_only=True),
    "nproc": Program(operands=Operands.TEXT, flags=word_set("--all"), read_only=True),
    "free": Program(operands=Operands.TEXT, flags=letters("bkmghtw"), read_only=True),
    **dict.fromkeys(word_set("whoami groups uptime logname tty"), _TEXT),
}
