"""Programs that show, search, compare or transform files."""

from msgspec.structs import replace

from clew.permissions.shell.arguments import Operands, Program, letters
from clew.permissions.shell.programs import word_set

_READER = Program(read_only=True)
_XZ_LISTS = word_set("--files --files0")
_CHECKSUM = Program(
    flags=letters("btzw") | word_set("--tag --quiet --status --strict --warn --zero --text"),
    # A list of checksums names the files to read.
    lists=word_set("-c --check"),
    optional=word_set("-c --check"),
    read_only=True,
)
_GREP = Program(
    text_operands=1,
    text_options=word_set("-e -f --regexp --file"),
    flags=letters("EFGPiyvwxcLlqsobHhnTUzaIZ0123456789")
    | word_set("""
        --extended-regexp --fixed-strings --basic-regexp --perl-regexp --ignore-case
        --no-ignore-case --invert-match --word-regexp --line-regexp --count --files-without-match
        --files-with-matches --only-matching --quiet --silent --no-messages --byte-offset
        --with-filename --no-filename --line-number --initial-tab --null --text --null-data
        --line-buffered --binary --version --help
    """),
    values=letters("emABCDd")
    | word_set("""
        --regexp --max-count --after-context --before-context --context --label --binary-files
        --devices --directories --include --exclude --exclude-dir --group-separator
    """),
    optional=word_set("--color --colour --no-group-separator"),
    reads=word_set("-f --file --exclude-from"),
    # `-d recurse` descends like `-r`.
    recurses=letters("rRd") | word_set("--recursive --dereference-recursive --directories"),
    follows=word_set("-R --dereference-recursive"),
    dereferences=word_set("-R --dereference-recursive"),
    default=".",
    read_only=True,
)
_RIPGREP = Program(
    text_operands=1,
    text_options=word_set("-e -f --regexp --file --files"),
    flags=letters("FiSsvwxclLoqHINnPUuzapb0")
    | word_set("""
        --files --hidden --no-ignore --fixed-strings --ignore-case --smart-case --invert-match
        --word-regexp --count --files-with-matches --only-matching --quiet --no-heading --heading
        --line-number --no-line-number --no-filename --multiline --json --follow --stats --pretty
        --column --no-messages --with-filename --type-list --trim --null --files-without-match
        --case-sensitive --line-regexp --no-config --vimgrep --pcre2 --count-matches --version
        --no-ignore-vcs --unrestricted --text --search-zip
    """),
    values=letters("eEmABCgtTjMdr")
    | word_set("""
        --regexp --glob --iglob --type --type-not --max-count --after-context --before-context
        --context --max-columns --max-depth --sort --sortr --color --colors --replace --threads
        --encoding --engine
    """),
    reads=word_set("-f --file --ignore-file"),
    executes=word_set("--pre --hostname-bin"),
    # `-z` runs programs that decompress.
    follows=word_set("-L --follow -z --search-zip"),
    dereferences=word_set("-L --follow"),
    recursive=True,
    default=".",
    read_only=True,
)
_AWK = Program(
    text_operands=1,
    text_options=word_set("-f --file -e --source -E --exec"),
    values=word_set("-F -v --field-separator --assign"),
    executes=word_set("-f --file -e --source -E --exec -i --include -l --load"),
    # A listing of the program, the variables, a profile, a debugger's commands.
    writes=letters("odpD") | word_set("--pretty-print --dump-variables --profile --debug"),
    optional=letters("odpD") | word_set("--pretty-print --dump-variables --profile --debug"),
    # Programs are parsed too: a redirection, a pipe and `system` write or run.
    read_only=True,
)
_COUNTED = Program(
    flags=letters("qvz0123456789") | word_set("--quiet --silent --verbose --zero-terminated"),
    values=word_set("-n -c --lines --bytes"),
    read_only=True,
)
_DIFF = Program(
    flags=letters("qsypTtabBwEiNdHlucen0123456789")
    | word_set("""
        --brief --report-identical-files --side-by-side --text --ignore-space-change
        --ignore-blank-lines --ignore-all-space --ignore-case --new-file --minimal --unified
        --context --normal --suppress-common-lines --no-dereference
    """),
    values=letters("UCFWILDSx")
    | word_set("""
        --label --width --exclude --show-function-line --ignore-matching-lines --ifdef
        --starting-file --tabsize --horizon-lines --line-format
    """),
    optional=word_set("-u -c --unified --context --color"),
    reads=word_set("-X --exclude-from --from-file --to-file"),
    # Even without `-r`, two folders are compared file by file.
    recurses=word_set("-r --recursive"),
    follows=word_set("-r --recursive"),
    dereferences=word_set("-r --recursive"),
    recursive=True,
    follows_always=True,
    read_only=True,
)

READERS: dict[str, Program] = {
    **dict.fromkeys(
        word_set("""
            rev look
        """),
        _READER,
    ),
    **dict.fromkeys(("source", "."), Program()),
    # Vim, read-only: commands can write and run nevertheless.
    "view": Program(executes=letters("cSsuUwWiT") | word_set("--cmd --startuptime")),
    "yq": Program(
        flags=letters("nrRcCMeojPPyYtjS") | word_set("--null-input --raw-output --prettyPrint"),
        values=letters("opI") | word_set("--output-format --input-format --indent --arg --argjson"),
        pairs=word_set("--arg --argjson"),
        reads=word_set("--rawfile --slurpfile"),
        modifies=letters("i") | word_set("--inplace --in-place"),
        # A split writes files with names that an expression computes.
        executes=word_set("--from-file --split-exp --split-exp-file"),
        expressions=True,
    ),
    **dict.fromkeys(
        ("bat", "batcat"),
        Program(
            flags=letters("AfpPnsuSdhV")
            | word_set("--plain --number --show-all --diff --squeeze-blank --unbuffered"),
            values=letters("lHrm")
            | word_set("""
                --language --highlight-line --line-range --style --theme --color --paging --wrap
                --terminal-width --tabs --italic-text --file-name --map-syntax --decorations
            """),
            executes=word_set("--pager --config-file --config-dir"),
        ),
    ),
    "more": Program(flags=letters("dflpcsu0123456789"), values=letters("n")),
    "pr": Program(
        flags=letters("abcdfFJmrtTv0123456789"),
        values=letters("DhlNowW"),
        optional=letters("einsS"),
    ),
    "tac": replace(_READER, flags=letters("br"), values=word_set("-s --separator")),
    "nl": replace(_READER, flags=letters("p"), values=letters("bdfhilnsvw")),
    **dict.fromkeys(
        ("hexdump", "hd"),
        replace(_READER, flags=letters("bcCdovx"), values=letters("ens"), reads=letters("f")),
    ),
    "od": replace(
        _READER,
        flags=letters("abcdfhilosvx"),
        values=letters("AjNSt"),
        optional=letters("w"),
    ),
    "strings": replace(_READER, flags=letters("afow"), values=letters("nets"), lists_after_at=True),
    "paste": replace(_READER, flags=letters("sz") | word_set("--serial"), values=letters("d")),
    "fold": replace(_READER, flags=letters("bs0123456789"), values=word_set("-w --width")),
    "fmt": replace(_READER, flags=letters("cstu0123456789"), values=letters("wpg")),
    "comm": replace(_READER, flags=letters("123z") | word_set("--check-order --nocheck-order")),
    "join": replace(_READER, flags=letters("iz"), values=letters("aejotv12")),
    **dict.fromkeys(
        ("expand", "unexpand"),
        replace(_READER, flags=letters("ia0123456789"), values=word_set("-t --tabs")),
    ),
    **dict.fromkeys(
        ("base64", "base32"),
        replace(
            _READER,
            flags=letters("di") | word_set("--decode --ignore-garbage"),
            values=word_set("-w --wrap"),
        ),
    ),
    "cut": replace(
        _READER,
        flags=letters("snz") | word_set("--complement --only-delimited --zero-terminated"),
        values=letters("bcdf")
        | word_set("--bytes --characters --delimiter --fields --output-delimiter"),
    ),
    "column": replace(_READER, flags=letters("txeJd"), values=letters("csoNRHTWEnl")),
    **dict.fromkeys(("zcat", "bzcat"), _READER),
    "xzcat": replace(_READER, lists=_XZ_LISTS, optional=_XZ_LISTS),
    "zstdcat": replace(_READER, lists=word_set("--filelist")),
    **dict.fromkeys(
        word_set("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum"),
        _CHECKSUM,
    ),
    "cat": Program(
        flags=letters("AbeEnstTuv")
        | word_set("--show-all --number --number-nonblank --squeeze-blank --show-ends --show-tabs"),
        read_only=True,
    ),
    "head": _COUNTED,
    "tail": replace(
        _COUNTED,
        flags=_COUNTED.flags | word_set("-f -F --follow --retry"),
        values=_COUNTED.values | word_set("-s --sleep-interval --pid"),
        optional=word_set("--follow"),
    ),
    # A log file; a `+` operand or the variable LESSOPEN may run commands.
    "less": Program(
        flags=letters("aABcCdeEfFgGiIJKLmMnNqQrRsSuUVwWX"),
        writes=letters("oO") | word_set("--log-file --LOG-FILE"),
        executes=word_set("-k --lesskey-file --lesskey-src"),
    ),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
    # A script that runs grep without files: with `-r` it searches the current folder. It takes the
    # value of `--context 1` for the pattern, and the pattern for a file.
    "zgrep": replace(
        _GREP,
        text_operands=0,
        recurses=frozenset(),
        values=_GREP.values - word_set("-d --directories"),
        lists=_GREP.recurses,
        optional=_GREP.optional | _GREP.recurses,
        read_only=False,
    ),
    "rgrep": replace(_GREP, recursive=True),
    "rg": _RIPGREP,
    **dict.fromkeys(
        ("ag", "ack"),
        replace(
            _RIPGREP,
            executes=_RIPGREP.executes | word_set("--pager --ackrc"),
            lists=letters("x"),
            optional=letters("x"),
            flags=_RIPGREP.flags - letters("x"),
            read_only=False,
        ),
    ),
    **dict.fromkeys(("awk", "gawk", "mawk"), _AWK),
    "wc": Program(
        flags=letters("clLmw") | word_set("--lines --words --bytes --chars --max-line-length"),
        values=word_set("--total"),
        lists=word_set("--files0-from"),
        read_only=True,
    ),
    "du": Program(
        operands=Operands.NAMES,
        flags=letters("0abcDHhklLmPsSx") | word_set("--all --human-readable --summarize --total"),
        values=word_set("-B -d -t --block-size --max-depth --threshold --exclude --time-style"),
        reads=word_set("-X --exclude-from"),
        lists=word_set("--files0-from"),
        follows=letters("DHL"),
        read_only=True,
    ),
    "date": Program(
        operands=Operands.TEXT,
        flags=letters("uR") | word_set("--utc --universal --rfc-email"),
        values=word_set("-d --date"),
        optional=word_set("-I --iso-8601 --rfc-3339"),
        reads=word_set("-f --file -r --reference"),
        # Sets the clock.
        executes=word_set("-s --set"),
        read_only=True,
    ),
    "file": Program(
        flags=letters("bcdEhiklLNnprsSvzZ0") | word_set("--brief --mime --mime-type"),
        values=letters("eFP") | word_set("--exclude --separator --parameter"),
        reads=word_set("-m --magic-file"),
        # Runs programs that decompress; sets the time of access, and loses digits of the other.
        follows=letters("zZp"),
        lists=word_set("-f --files-from"),
        # Writes `magic.mgc` to the working folder.
        executes=word_set("-C --compile"),
        read_only=True,
    ),
    "sort": Program(
        flags=letters("bdfgiMhnRrVcCmsuz")
        | word_set("""
            --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort
            --month-sort --human-numeric-sort --numeric-sort --random-sort --reverse
            --version-sort --merge --stable --unique --zero-terminated --debug
        """),
        values=letters("kSt")
        | word_set("--key --buffer-size --field-separator --parallel --batch-size --sort"),
        optional=word_set("--check"),
        reads=word_set("--random-source"),
        lists=word_set("--files0-from"),
        writes=word_set("-o --output"),
        folders=word_set("-T --temporary-directory"),
        # Temporary files are compressed with a program of one's choice.
        executes=word_set("--compress-program"),
        read_only=True,
    ),
    "shuf": Program(
        flags=letters("erz") | word_set("--echo --repeat --zero-terminated"),
        values=letters("in") | word_set("--input-range --head-count"),
        reads=word_set("--random-source"),
        writes=word_set("-o --output"),
        read_only=True,
    ),
    "uniq": Program(
        operands=Operands.SECOND_WRITTEN,
        flags=letters("cdDiuz") | word_set("--count --repeated --ignore-case --unique"),
        values=letters("fsw") | word_set("--skip-fields --skip-chars --check-chars"),
        optional=word_set("--all-repeated --group"),
        read_only=True,
    ),
    # It compares the beginnings of options: `-il` is `-i`.
    "xxd": Program(
        operands=Operands.SECOND_WRITTEN,
        long_with_one_dash=True,
        options_first=True,
        flags=letters("abCdeEipPruv"),
        values=letters("cglonsR"),
        read_only=True,
    ),
    "tr": Program(
        operands=Operands.TEXT,
        flags=letters("cCdst") | word_set("--delete --squeeze-repeats --complement"),
        read_only=True,
    ),
    "diff": _DIFF,
    "cmp": replace(_READER, flags=letters("bls"), values=letters("in")),
    "diff3": replace(_READER, executes=word_set("--diff-program")),
    "sdiff": replace(_DIFF, writes=word_set("-o --output"), executes=word_set("--diff-program")),
    "iconv": Program(
        flags=letters("clsv"),
        # A name with a slash is a file with a character map.
        reads=letters("ft") | word_set("--from-code --to-code"),
        writes=word_set("-o --output"),
        read_only=True,
    ),
    "jq": Program(
        text_operands=1,
        text_options=word_set("-f --from-file"),
        flags=letters("cnrRsajSCMe")
        | word_set("""
            --compact-output --null-input --raw-output --raw-input --slurp --sort-keys --tab
            --exit-status --join-output --ascii-output --color-output --monochrome-output
        """),
        values=word_set("--arg --argjson --indent"),
        reads=word_set("-f --from-file --rawfile --slurpfile --argfile"),
        folders=letters("L"),
        pairs=word_set("--arg --argjson --rawfile --slurpfile --argfile"),
        read_only=True,
    ),
    # Scripts are parsed too: `w`, `r` and `e` write, read and run.
    "sed": Program(
        text_operands=1,
        text_options=word_set("-e -f --expression --file"),
        flags=letters("nErsuzb")
        | word_set("""
            --quiet --silent --regexp-extended --separate --unbuffered --null-data --binary
            --posix --debug --sandbox --follow-symlinks
        """),
        values=letters("el") | word_set("--expression --line-length"),
        optional=word_set("-i --in-place"),
        reads=word_set("-f --file"),
        modifies=word_set("-i --in-place"),
        temporary="sed*",
        read_only=True,
    ),
    # Expressions: tests with a value, and actions that run programs, write or delete.
    "find": Program(
        operands=Operands.NAMES,
        long_with_one_dash=True,
        flags=word_set("""
            -P -print -print0 -ls -prune -quit -not -a -and -o -or -empty -readable -writable
            -executable -depth -d -mount -xdev -daystart -true -false -noleaf -nouser -nogroup
        """),
        values=word_set("""
            -newermt -newerct -newerat -used
            -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype
            -size -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -samefile -perm
            -user -group -uid -gid -maxdepth -mindepth -printf -links -inum -fstype -lname -ilname
        """),
        lists=word_set("-files0-from"),
        writes=word_set("-fprint -fprint0 -fprintf -fls"),
        modifies=word_set("-delete"),
        default=".",
        read_only=True,
    ),
    "fd": Program(
        operands=Operands.NAMES,
        text_operands=1,
        flags=letters("HIusiFgap0q1")
        | word_set("--hidden --no-ignore --glob --absolute-path --full-path --fixed-strings"),
        values=letters("tedEScjm") | word_set("--type --extension --max-depth --exclude --owner"),
        follows=word_set("-L --follow"),
        default=".",
        read_only=True,
    ),
}
