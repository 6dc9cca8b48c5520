"""Tables of programs and builtins whose arguments decide what really happens.

A program that is missing here counts as one that does what its name says; rules still apply
to it.
"""

import re

from msgspec import Struct


def word_set(text: str) -> frozenset[str]:
    """Split a table into its words."""
    return frozenset(text.split())


KEYWORDS = word_set("""
    if then else elif fi for while until do done case esac select function in ! [[ ]] { }
""")

UNCERTAIN_BUILTINS = word_set("""
    source . alias unalias hash enable mapfile readarray bind complete compgen compopt fc history
    shopt let getopts
""")
"""Builtins that run text, or change the meaning of later words."""

INERT = word_set("true false : test [ exit return break continue wait sleep")
"""Commands without effect on files or processes: they need no rule of their own."""

PRINTING = word_set("echo printf pwd")
"""Commands that only print: they need no rule as long as their arguments have no expansion."""

NAME_ONLY = word_set("echo printf ls test [ basename dirname pwd which type mkdir true false : cd")
"""Programs that use the name of a file, and never show its content."""

FILTERS = word_set("""
    head tail grep egrep fgrep wc sort uniq cut tr cat sed awk jq nl column tac rev
""")
"""Programs that work on their standard input at the end of a pipeline."""

SHELLS = word_set("sh bash dash")
"""Shells whose language the parser understands."""

OTHER_SHELLS = word_set("zsh ksh ash fish csh tcsh rbash mksh xonsh nu elvish pwsh")

INTERPRETERS = re.compile(
    r"(?:python|pypy|ipython|perl|ruby|node|nodejs|php|lua|luajit|Rscript|tclsh|osascript)[\d.]*"
)
"""Interpreters: without a file they run their standard input."""

RUNS_INPUT = word_set("at batch crontab ed ex")
"""Programs that run commands from their standard input or from a file, now or later."""

DESTRUCTIVE = word_set("""
    rm rmdir unlink mv cp dd shred truncate chmod chown chgrp kill pkill killall ln tee curl wget
    mkfs mount umount shutdown reboot crontab install rsync scp
""")
"""Programs whose later arguments decide what is lost: a grant covers only the exact call."""

RUNNERS = (
    SHELLS
    | OTHER_SHELLS
    | word_set("""
    sudo doas su env command builtin exec nohup time nice ionice timeout stdbuf setsid chroot
    unshare nsenter xargs parallel find fd watch script ssh busybox toybox strace ltrace flock
    taskset chrt runuser systemd-run tmux screen at batch make python python3 perl ruby node
    deno bun php lua awk gawk mawk expect docker podman kubectl npx uvx pipx entr caffeinate
    arch rlwrap unbuffer dbus-run-session proot fakeroot firejail bwrap eval trap coproc
    vi vim nvim ex ed view emacs tar less man gdb bunx uv poetry pipenv hatch conda bundle devbox
    mise direnv nix mosh sshpass setpriv chronic doppler dotenv prlimit setarch linux32 linux64
    numactl cgexec eatmydata faketime torsocks proxychains
""")
)
"""Programs that run a command from their arguments."""

CONTAINER_PROGRAMS = word_set("""
    docker docker-compose podman podman-compose nerdctl buildah lxc incus
    rclone aws gsutil gcloud az azcopy s3cmd s5cmd mc
""")
"""Programs that give a container or another machine a folder with everything in it."""
READS_FOLDER = word_set("compose docker-compose podman-compose")
"""Words with which they use the settings in the working directory."""

PACKAGE_MANAGERS = word_set("npm pnpm yarn bun")
RUN_SUBCOMMANDS = word_set("exec dlx x explore")
"""Subcommands with which a package manager runs another command."""

OPAQUE_WRAPPERS = word_set("""
    parallel chroot unshare nsenter strace ltrace systemd-run tmux screen at batch entr expect
    runuser proot firejail bwrap mosh sshpass setpriv dbus-run-session rlwrap unbuffer script
    chrt taskset arch watch toybox prlimit setarch linux32 linux64 numactl cgexec eatmydata
    faketime torsocks proxychains
""")
"""Wrappers whose own arguments the parser cannot separate from the command they run: a rule
must spell out all of it."""


class Wrapper(Struct, frozen=True, kw_only=True):
    """How to find the command in the arguments of a wrapper."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    """Options whose value is the next word."""
    operands: int = 0
    """The number of its own operands before the command."""
    transparent: bool = False
    assigns: bool = False
    """NAME=value may come before the command."""
    appends: bool = False
    """It appends words to the command."""


WRAPPERS: dict[str, Wrapper] = {
    "time": Wrapper(flags=word_set("-p -v --portability --verbose"), transparent=True),
    "timeout": Wrapper(
        flags=word_set("-f -p -v --foreground --preserve-status --verbose"),
        values=word_set("-k -s --kill-after --signal"),
        operands=1,
        transparent=True,
    ),
    "nice": Wrapper(values=word_set("-n --adjustment"), transparent=True),
    "ionice": Wrapper(
        flags=word_set("-t --ignore"),
        values=word_set("-c -n --class --classdata"),
        transparent=True,
    ),
    "nohup": Wrapper(transparent=True),
    "setsid": Wrapper(flags=word_set("-c -f -w --ctty --fork --wait"), transparent=True),
    "stdbuf": Wrapper(values=word_set("-i -o -e --input --output --error"), transparent=True),
    "chronic": Wrapper(flags=word_set("-v -e"), transparent=True),
    "caffeinate": Wrapper(
        flags=word_set("-d -i -m -s -u"), values=word_set("-t"), transparent=True
    ),
    "command": Wrapper(flags=word_set("-p"), transparent=True),
    "builtin": Wrapper(transparent=True),
    "exec": Wrapper(flags=word_set("-c -l"), values=word_set("-a"), transparent=True),
    "env": Wrapper(
        flags=word_set("- -i -0 -v --ignore-environment --null --debug"),
        values=word_set("-u --unset"),
        transparent=True,
        assigns=True,
    ),
    "xargs": Wrapper(
        flags=word_set("-0 -r -t -x -o --null --no-run-if-empty --verbose --exit --open-tty"),
        values=word_set("""
            -I -n -P -L -d -s -E --max-args --max-procs --max-lines --delimiter --max-chars
            --replace --eof
        """),
        transparent=True,
        appends=True,
    ),
    "sudo": Wrapper(
        flags=word_set(
            "-A -b -B -E -H -n -k -K -N -P -S -v --non-interactive --preserve-env --stdin"
        ),
        values=word_set("-u -g -h -p -C -T -r -t -U --user --group --host --prompt"),
        assigns=True,
    ),
    "doas": Wrapper(flags=word_set("-n -L"), values=word_set("-u -a -C")),
    "flock": Wrapper(
        flags=word_set("-s -x -e -n -u -o -F --shared --exclusive --nonblock --unlock --close"),
        values=word_set("-w -E --wait --timeout --conflict-exit-code"),
        operands=1,
    ),
    "busybox": Wrapper(),
    "fakeroot": Wrapper(),
    "coproc": Wrapper(),
}

CODE_OPTIONS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("python", "pypy", "ipython"), word_set("-c -")),
    "perl": word_set("-e -E -n -p -i -"),
    "ruby": word_set("-e -n -p -i -"),
    **dict.fromkeys(
        ("node", "nodejs"), word_set("-e --eval -p --print -r --require --import --loader -")
    ),
    "deno": word_set("eval repl"),
    "bun": word_set("-e --eval -p --print -r --preload"),
    "php": word_set("-r -B -R -E"),
    **dict.fromkeys(("lua", "luajit"), word_set("-e -l -")),
    "Rscript": word_set("-e"),
    "osascript": word_set("-e"),
    "expect": word_set("-c"),
    **dict.fromkeys(("vi", "vim", "nvim", "ex"), word_set("-c --cmd -S -s -W -u")),
    "emacs": word_set("--eval --batch -l --load --script -f"),
    "gdb": word_set("-ex -x -iex -ix --eval-command --command"),
    "make": word_set("--eval"),
    "go": word_set("-exec -toolexec"),
    "npm": word_set("--script-shell --node-options explore"),
    "cargo": word_set("--config"),
    "psql": word_set("-c --command"),
    "man": word_set("-P --pager -H --html"),
}
"""Options that pass code to a program. Short ones also count within a cluster."""

INTERPRETER_FLAGS = word_set("""
    -b -B -d -E -I -O -OO -P -q -s -S -u -v -x -w --no-warnings --test --watch
""")
"""Options of interpreters without a value."""
ENDS_OPTIONS = word_set("-m --")
"""The arguments that follow belong to a module or a script."""
INFO_OPTIONS = word_set("-V -VV -v -l --version -h --help")

OPTION_MAY_APPEAR = word_set("find fd sed sort tar rsync")
"""Programs for which a word known only at run time may turn out to be such an option."""

FIND_ACTIONS = word_set("-delete -fprint -fprint0 -fprintf -fls")
FIND_EXEC = word_set("-exec -execdir -ok -okdir")
FD_EXEC = word_set("-x -X --exec --exec-batch")

SSH_VALUES = word_set("-b -c -D -E -e -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B -F -P")
SSH_FLAGS = word_set("-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y -tt")

SHELL_FLAGS = re.compile(r"-[celuxfv]+")
"""Options beside a shell's `-c` that do not change the meaning of its text."""

BENIGN_SET = re.compile(r"[-+][euxo]+|pipefail|errexit|nounset|xtrace")
"""Arguments of `set` that do not change the meaning of words."""
