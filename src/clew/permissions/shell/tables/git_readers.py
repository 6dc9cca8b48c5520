"""Subcommands of git that only read, with the options that change only what they show.

An option that is missing here may run a program (`--ext-diff`, `--textconv`, `--show-signature`),
write a file (`--output`) or read any file (`--no-index`).
"""

from msgspec import Struct

from clew.permissions.shell.arguments import Program, letters
from clew.permissions.shell.programs import word_set

_SHOWN = Program(
    flags=letters("puszabwcmRqiEFPWt0123456789")
    | word_set("""
        --oneline --graph --all --decorate --no-decorate --stat --shortstat --numstat --raw
        --name-only --name-status --patch --no-patch --merges --no-merges --first-parent --reverse
        --follow --date-order --topo-order --author-date-order --abbrev-commit --no-abbrev-commit
        --no-color --cc --full-diff --summary --dirstat --pickaxe-all --pickaxe-regex --text
        --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-space-at-eol
        --minimal --patience --histogram --left-right --left-only --right-only --cherry-pick
        --cherry-mark --cherry --boundary --simplify-by-decoration --full-history --no-renames
        --check --exit-code --quiet --cached --staged --no-ext-diff --no-textconv --no-prefix
        --function-context --merge-base --patch-with-stat --full-index --binary --compact-summary
        --invert-grep --regexp-ignore-case --walk-reflogs --no-notes --source --parents --children
        --count --no-walk --do-walk --sparse --dense --show-pulls --ancestry-path
    """),
    values=letters("nSGLl")
    | word_set("""
        --max-count --skip --since --until --after --before --author --committer --grep --date
        --diff-filter --inter-hunk-context --word-diff-regex --diff-algorithm --min-parents
        --max-parents --stat-width --stat-count --stat-name-width --anchored --decorate-refs
    """),
    optional=letters("UMCBX")
    | word_set("""
        --format --pretty --color --unified --abbrev --word-diff --color-words --find-renames
        --find-copies --branches --tags --remotes --glob --exclude --stat --relative --decorate
        --ignore-submodules --color-moved --dirstat
    """),
    read_only=True,
)
_REFS = Program(
    flags=letters("alrvqi")
    | word_set("""
        --all --list --remotes --verbose --show-current --no-color --ignore-case --omit-empty
        --no-column
    """),
    values=word_set("--contains --no-contains --merged --no-merged --points-at --sort --count"),
    optional=letters("n") | word_set("--color --column --abbrev --format"),
    read_only=True,
)


class GitReader(Struct, frozen=True, kw_only=True):
    """A subcommand of git that only reads in one of these forms."""

    table: Program
    lists_with: frozenset[str] = frozenset()
    """If not empty: an operand is a change, unless one of these options is given."""
    first: frozenset[str] = frozenset()
    """If not empty: the first operand must be one of these words."""
    alone: bool = True
    """True if it also reads without operands."""


def _shows(flags: str = "", *, values: str = "", optional: str = "", reads: str = "") -> GitReader:
    table = Program(
        flags=word_set(flags),
        values=word_set(values),
        optional=word_set(optional),
        reads=word_set(reads),
        read_only=True,
    )
    return GitReader(table=table)


GIT_READERS: dict[str, GitReader] = {
    **dict.fromkeys(
        word_set("diff log show whatchanged rev-list diff-tree diff-index shortlog"),
        GitReader(table=_SHOWN),
    ),
    "shortlog": _shows(
        "-s -n -e -c --summary --numbered --email --all --no-merges", values="--since"
    ),
    "reflog": GitReader(table=_SHOWN, first=word_set("show")),
    "stash": GitReader(table=_SHOWN, first=word_set("list show"), alone=False),
    # Before git 2.19, `-l NAME` created a branch.
    "branch": GitReader(table=_REFS, lists_with=word_set("--list")),
    "tag": GitReader(table=_REFS, lists_with=word_set("-l --list")),
    "remote": GitReader(table=_REFS, first=word_set("get-url")),
    "for-each-ref": GitReader(table=_REFS),
    "worktree": GitReader(
        table=Program(flags=word_set("--porcelain -v -z"), read_only=True),
        first=word_set("list"),
        alone=False,
    ),
    "status": _shows(
        "-s -b -v -z --short --branch --long --verbose --show-stash --ahead-behind"
        " --no-ahead-behind --no-renames --renames",
        optional="-u --untracked-files --porcelain --ignored --ignore-submodules --column",
    ),
    "blame": _shows(
        "-l -t -s -e -w -n -f -p -c -b --porcelain --line-porcelain --show-email --show-name"
        " --show-number --root",
        values="-L --since --date",
        optional="-M -C --abbrev",
        reads="--contents --ignore-revs-file",
    ),
    "rev-parse": _shows(
        "--show-toplevel --verify -q --quiet --git-dir --is-inside-work-tree --show-prefix"
        " --symbolic-full-name --show-cdup --is-bare-repository --all --absolute-git-dir"
        " --git-common-dir --revs-only --symbolic",
        optional="--abbrev-ref --short --branches --tags --remotes",
    ),
    "ls-files": _shows(
        "-c -d -m -o -i -s -u -z -t -v --cached --deleted --modified --others --ignored --stage"
        " --unmerged --exclude-standard --full-name --error-unmatch --directory --debug --eol",
        values="-x --exclude",
        reads="-X --exclude-from",
        optional="--abbrev",
    ),
    "ls-tree": _shows(
        "-r -d -t -l -z --name-only --name-status --full-tree --full-name --long",
        optional="--abbrev",
    ),
    "describe": _shows(
        "--tags --all --long --always --contains --exact-match --first-parent",
        values="--match --exclude --candidates",
        optional="--abbrev --dirty",
    ),
    "show-ref": _shows(
        "--heads --tags --head -d -s -q --verify --quiet", optional="--hash --abbrev"
    ),
    "cat-file": _shows(
        "-t -s -p -e --batch-all-objects --buffer --unordered", optional="--batch --batch-check"
    ),
    "fsck": _shows(
        "--full --no-full --strict --unreachable --dangling --no-dangling --connectivity-only"
        " --progress --no-progress --root --tags --cache --no-reflogs --verbose --name-objects"
    ),
    "check-ignore": _shows("-v -q -n -z --verbose --quiet --non-matching --no-index --stdin"),
    "verify-pack": _shows("-v -s --verbose --stat-only"),
    "merge-base": _shows("-a --all --is-ancestor --octopus --fork-point"),
    "name-rev": _shows("--tags --name-only --always --all", values="--refs"),
    "count-objects": _shows("-v -H --verbose --human-readable"),
    "version": _shows(),
    "grep": _shows(
        "-E -F -G -P -i -I -v -w -l -L -c -n -h -H -q -p -W -z -o -a --and --or --not --cached"
        " --untracked --name-only --count --line-number --column --heading --break --all-match"
        " --ignore-case --word-regexp --extended-regexp --fixed-strings --perl-regexp --full-name"
        " -0 -1 -2 -3 -4 -5 -6 -7 -8 -9",
        values="-e -m -A -B -C --max-depth --threads --max-count --context --after-context",
        optional="--color",
        reads="-f",
    ),
}
GIT_FLAGS = word_set("""
    --no-pager -P --no-optional-locks --no-replace-objects --literal-pathspecs --glob-pathspecs
    --noglob-pathspecs --icase-pathspecs --version -v
""")
"""Options before the subcommand that change neither the repository nor what git runs."""
