"""Programs and words of the shell whose arguments decide what really happens.

Tables only. A program that is missing here is taken for one that does what its name says;
rules still hold for it.
"""

import re

from msgspec import Struct


def table(text: str) -> frozenset[str]:
    """Split a table into its words."""
    return frozenset(text.split())


KEYWORDS = table("""
    if then else elif fi for while until do done case esac select function in ! [[ ]] { }
""")

HIDING = table("""
    source . alias unalias hash enable mapfile readarray bind complete compgen compopt fc history
    shopt let getopts
""")
"""Builtins that run text, or change what later words mean."""

INERT = table("true false : test [ exit return break continue wait sleep")
"""Touch nothing: they need no rule of their own."""

PRINTING = table("echo printf pwd")
"""Touch nothing either, and need no rule as long as all they print stands in the line."""

NAMING = table("echo printf ls test [ basename dirname pwd which type mkdir true false : cd")
"""Programs for which the name of a file is just a name: they show nothing of what is in it."""

SHELLS = table("sh bash dash")
"""Shells whose language is the one that is read here."""

OTHER_SHELLS = table("zsh ksh ash fish csh tcsh rbash mksh xonsh nu elvish pwsh")

INTERPRETERS = re.compile(
    r"(?:python|pypy|ipython|perl|ruby|node|nodejs|php|lua|luajit|Rscript|tclsh|osascript)[\d.]*"
)
"""Without a file they run what comes through their standard input."""

RUNS_INPUT = table("at batch crontab ed ex")
"""They run, sooner or later, what comes through their standard input or stands in a file."""

UNFORGIVING = table("""
    rm rmdir unlink mv cp dd shred truncate chmod chown chgrp kill pkill killall ln tee curl wget
    mkfs mount umount shutdown reboot crontab install rsync scp
""")
"""Programs whose later words decide what is lost: granted word for word only."""

RUNNERS = (
    SHELLS
    | OTHER_SHELLS
    | table("""
    sudo doas su env command builtin exec nohup time nice ionice timeout stdbuf setsid chroot
    unshare nsenter xargs parallel find fd watch script ssh busybox toybox strace ltrace flock
    taskset chrt runuser systemd-run tmux screen at batch make python python3 perl ruby node
    deno bun php lua awk gawk mawk expect docker podman kubectl npx uvx pipx entr caffeinate
    arch rlwrap unbuffer dbus-run-session proot fakeroot firejail bwrap eval trap coproc
    vi vim nvim ex ed emacs tar less man gdb bunx uv poetry pipenv hatch conda bundle devbox
    mise direnv nix mosh sshpass setpriv chronic doppler dotenv
""")
)
"""Programs that run a command given to them as arguments."""

PACKAGE_MANAGERS = table("npm pnpm yarn bun")
RUNS_WITH = table("exec dlx x explore")
"""Subcommands with which a package manager becomes a runner."""

UNREADABLE = table("""
    parallel chroot unshare nsenter strace ltrace systemd-run tmux screen at batch entr expect
    runuser proot firejail bwrap mosh sshpass setpriv dbus-run-session rlwrap unbuffer script
    chrt taskset arch watch toybox
""")
"""Runners whose own words are not told from the command: only a rule that spells it allows it."""


class Wrapper(Struct, frozen=True, kw_only=True):
    """How to find the command in the words of a runner."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    """Options that take the next word."""
    operands: int = 0
    """Words of its own before the command."""
    transparent: bool = False
    assigns: bool = False
    """NAME=value may come before the command."""
    appends: bool = False
    """Puts more words behind those of the command."""


WRAPPERS: dict[str, Wrapper] = {
    "time": Wrapper(flags=table("-p -v --portability --verbose"), transparent=True),
    "timeout": Wrapper(
        flags=table("-f -p -v --foreground --preserve-status --verbose"),
        values=table("-k -s --kill-after --signal"),
        operands=1,
        transparent=True,
    ),
    "nice": Wrapper(values=table("-n --adjustment"), transparent=True),
    "ionice": Wrapper(
        flags=table("-t --ignore"), values=table("-c -n --class --classdata"), transparent=True
    ),
    "nohup": Wrapper(transparent=True),
    "setsid": Wrapper(flags=table("-c -f -w --ctty --fork --wait"), transparent=True),
    "stdbuf": Wrapper(values=table("-i -o -e --input --output --error"), transparent=True),
    "chronic": Wrapper(flags=table("-v -e"), transparent=True),
    "caffeinate": Wrapper(flags=table("-d -i -m -s -u"), values=table("-t"), transparent=True),
    "command": Wrapper(flags=table("-p"), transparent=True),
    "builtin": Wrapper(transparent=True),
    "exec": Wrapper(flags=table("-c -l"), values=table("-a"), transparent=True),
    "env": Wrapper(
        flags=table("- -i -0 -v --ignore-environment --null --debug"),
        values=table("-u --unset"),
        transparent=True,
        assigns=True,
    ),
    "xargs": Wrapper(
        flags=table("-0 -r -t -x -o --null --no-run-if-empty --verbose --exit --open-tty"),
        values=table("""
            -I -n -P -L -d -s -E --max-args --max-procs --max-lines --delimiter --max-chars
            --replace --eof
        """),
        transparent=True,
        appends=True,
    ),
    "sudo": Wrapper(
        flags=table("-A -b -B -E -H -n -k -K -N -P -S -v --non-interactive --preserve-env --stdin"),
        values=table("-u -g -h -p -C -T -r -t -U --user --group --host --prompt"),
        assigns=True,
    ),
    "doas": Wrapper(flags=table("-n -L"), values=table("-u -a -C")),
    "flock": Wrapper(
        flags=table("-s -x -e -n -u -o -F --shared --exclusive --nonblock --unlock --close"),
        values=table("-w -E --wait --timeout --conflict-exit-code"),
        operands=1,
    ),
    "busybox": Wrapper(),
    "fakeroot": Wrapper(),
    "coproc": Wrapper(),
}

CODE: dict[str, frozenset[str]] = {
    **dict.fromkeys(("python", "pypy", "ipython"), table("-c -")),
    "perl": table("-e -E -n -p -i -"),
    "ruby": table("-e -n -p -i -"),
    **dict.fromkeys(
        ("node", "nodejs"), table("-e --eval -p --print -r --require --import --loader -")
    ),
    "deno": table("eval repl"),
    "bun": table("-e --eval -p --print -r --preload"),
    "php": table("-r -B -R -E"),
    **dict.fromkeys(("lua", "luajit"), table("-e -l -")),
    "Rscript": table("-e"),
    "osascript": table("-e"),
    "expect": table("-c"),
    **dict.fromkeys(("vi", "vim", "nvim", "ex"), table("-c --cmd -S -s -W -u")),
    "emacs": table("--eval --batch -l --load --script -f"),
    "gdb": table("-ex -x -iex -ix --eval-command --command"),
    "tar": table("""
        --to-command --checkpoint-action --use-compress-program -I -F --info-script
        --new-volume-script --rsh-command
    """),
    "make": table("--eval"),
    "rsync": table("-e --rsh --rsync-path"),
    "scp": table("-S -o -F"),
    "sort": table("--compress-program"),
    "rg": table("--pre --hostname-bin"),
    "zip": table("-TT --unzip-command"),
    "wget": table("-e --execute --use-askpass"),
    "curl": table("-K --config"),
    "go": table("-exec -toolexec"),
    "npm": table("--script-shell --node-options explore"),
    "cargo": table("--config"),
    "psql": table("-c --command"),
    "man": table("-P --pager -H --html"),
}
"""Options that hand a program code to run. Short ones also count within a cluster."""

INTERPRETER_FLAGS = table("""
    -b -B -d -E -I -O -OO -P -q -s -S -u -v -x -w --no-warnings --test --watch
""")
"""Options of interpreters that take no word after them."""
ENDS_OPTIONS = table("-m --")
"""What follows belongs to a module or a script."""
ONLY_TELLS = table("-V -VV -v -l --version -h --help")

OPTION_MAY_APPEAR = table("find fd sed sort tar rsync")
"""Programs for which a word that is not known yet may turn out to be such an option."""

FIND_DOES = table("-delete -fprint -fprint0 -fprintf -fls")
FIND_RUNS = table("-exec -execdir -ok -okdir")
FD_RUNS = table("-x -X --exec --exec-batch")

GIT_VALUES = table("-C -c --git-dir --work-tree --namespace --super-prefix --config-env")
GIT_DELICATE = table("-C -c --git-dir --work-tree --config-env --exec-path")
"""Options before the subcommand with which git works elsewhere, or by other settings."""
GIT_RUNS = table("""
    --exec --upload-pack --receive-pack --extcmd --ext-diff --open-files-in-pager --output
    --tree-filter --index-filter --msg-filter --commit-filter --env-filter --tag-name-filter
    --parent-filter
""")
GIT_RUNS_BY_SUBCOMMAND: dict[str, frozenset[str]] = {
    "rebase": table("-x"),
    "difftool": table("-x"),
    "grep": table("-O"),
    "bisect": table("run"),
    "submodule": table("foreach"),
}
GIT_DELICATE_SUBCOMMANDS = table("config filter-branch send-email daemon instaweb")

SSH_VALUES = table("-b -c -D -E -e -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B -F -P")
SSH_FLAGS = table("-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y -tt")

SHELL_FLAGS = re.compile(r"-[celuxfv]+")
"""Options of a shell with `-c` that change nothing about what its text means."""

BENIGN_SET = re.compile(r"[-+][euxo]+|pipefail|errexit|nounset|xtrace")
"""Arguments of `set` that do not change what words mean."""
