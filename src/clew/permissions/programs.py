"""Programs and words of the shell whose arguments decide what really happens."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words("""
    if then else elif fi for while until do done case esac select function in ! [[ coproc
""")

HIDING = _words("""
    eval source . trap alias hash enable mapfile readarray bind complete compgen fc history
""")
"""Builtins that run text, or change what later words mean."""

SHELLS = _words("sh bash zsh dash ksh ash fish csh tcsh rbash")

RUNNERS = SHELLS | _words("""
    sudo doas su env command builtin exec nohup time nice ionice timeout stdbuf setsid chroot
    unshare nsenter xargs parallel find fd watch script ssh busybox toybox strace ltrace flock
    taskset chrt runuser systemd-run tmux screen at batch make python python3 perl ruby node
    deno bun php lua awk gawk mawk expect docker podman kubectl npx uvx pipx entr caffeinate
    arch rlwrap unbuffer dbus-run-session proot fakeroot firejail bwrap
    vi vim nvim ex ed emacs tar less man gdb
""")
"""Programs that run a command given to them as arguments."""

GIT_RUNS = _words("-c --config-env --exec-path --exec -x foreach run filter-branch --upload-pack")
"""Words with which git runs what it was told to, or takes settings that make it do so."""

UNFORGIVING = _words("""
    rm rmdir unlink mv cp dd shred truncate chmod chown chgrp kill pkill killall ln tee curl wget
    mkfs mount umount shutdown reboot crontab install rsync scp
""")
"""Programs whose later words decide what is lost: granted word for word only."""
