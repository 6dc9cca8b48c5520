"""Subcommands of git: options that run programs, and files that they read or write."""

from msgspec.structs import replace

from clew.permissions.shell.arguments import Operands, Program, letters
from clew.permissions.shell.programs import word_set

_TRANSPORT = word_set("--upload-pack --receive-pack --exec")
"""The command that git runs on the other side: for a local repository, here."""
_SHOWN = Program(
    values=letters("SGLnUlO")
    | word_set("""
        --format --pretty --since --until --after --before --author --committer --grep --max-count
        --date --diff-filter --stat-width --word-diff-regex --inter-hunk-context --skip
    """),
    optional=letters("UMCBn")
    | word_set("--stat --color --unified --abbrev --word-diff --find-renames --ext-diff"),
    flags=letters("puszabwRq") | word_set("--cached --staged --name-only --oneline"),
    reads=letters("O"),
    writes=word_set("--output"),
    executes=word_set("--ext-diff"),
)
# Also without --no-index, if one of two folders is outside of the repository.
_COMPARED = replace(_SHOWN, recursive=True)
_CHANGES_FILES = Program(operands=Operands.WRITE, writes_tree=".", recursive=True)
_REMOTE = Program(
    operands=Operands.TEXT,
    values=letters("ojb") | word_set("--depth --refmap --server-option --push-option --jobs"),
    executes=_TRANSPORT,
    hosts=True,
    addresses=True,
)
_MESSAGE = Program(
    values=letters("mCc") | word_set("--message --author --date --fixup --squash --cleanup"),
    optional=letters("Su") | word_set("--gpg-sign --untracked-files"),
    reads=letters("Ft") | word_set("--file --template"),
    lists=word_set("--pathspec-from-file"),
)
_BATCH = word_set("--batch --batch-command")

SUBCOMMANDS: dict[str, Program] = {
    **dict.fromkeys(word_set("log show whatchanged reflog"), _SHOWN),
    "diff": _COMPARED,
    **dict.fromkeys(
        word_set("""
            checkout switch restore reset merge cherry-pick revert mv rm clean read-tree
            checkout-index sparse-checkout
        """),
        _CHANGES_FILES,
    ),
    "stash": replace(
        _CHANGES_FILES,
        values=word_set("-m --message"),
        # Untracked files are copied into the repository.
        recurses=letters("ua") | word_set("--include-untracked --all"),
        recursive=False,
        default=".",
        inspects=word_set("list show"),
    ),
    **dict.fromkeys(word_set("ls-remote fetch push send-pack fetch-pack remote-ext"), _REMOTE),
    "pull": replace(_REMOTE, writes_tree="."),
    # Settings and templates of the new repository can name programs.
    "clone": Program(
        operands=Operands.SECOND_WRITTEN,
        values=letters("bjo") | word_set("--branch --depth --origin --jobs --filter --bundle-uri"),
        flags=letters("qvnls") | word_set("--bare --mirror --local --no-local --quiet --shared"),
        reads=word_set("--reference --reference-if-able"),
        folders=word_set("--separate-git-dir"),
        executes=letters("uc") | word_set("--config --template") | _TRANSPORT,
        recursive=True,
        writes_tree=".",
        hosts=True,
        addresses=True,
    ),
    "init": Program(
        operands=Operands.WRITE,
        values=letters("b") | word_set("--initial-branch --object-format"),
        folders=word_set("--separate-git-dir"),
        executes=word_set("--template"),
        recursive=True,
        writes_tree=".",
    ),
    "rebase": Program(
        operands=Operands.TEXT,
        values=letters("sXC") | word_set("--onto --strategy --strategy-option --whitespace"),
        flags=letters("iqvnfmr") | word_set("--interactive --continue --abort --skip --root"),
        optional=letters("S") | word_set("--rebase-merges --gpg-sign"),
        executes=word_set("-x --exec"),
        writes_tree=".",
    ),
    "difftool": replace(
        _COMPARED,
        flags=_COMPARED.flags | letters("dgy"),
        executes=letters("xt") | word_set("--extcmd --tool"),
    ),
    "mergetool": replace(
        _CHANGES_FILES, operands=Operands.READ, executes=letters("t") | word_set("--tool")
    ),
    "grep": Program(
        text_operands=1,
        text_options=letters("ef"),
        flags=letters("EFGPiIvwlLcnhHqrpWzoa")
        | word_set("--cached --no-index --untracked --recurse-submodules --and --or --not"),
        values=letters("emABC") | word_set("--max-depth --threads --max-count"),
        optional=letters("O") | word_set("--open-files-in-pager --color"),
        reads=letters("f"),
        executes=letters("O") | word_set("--open-files-in-pager"),
        recursive=True,
        default=".",
    ),
    "archive": Program(
        values=word_set("--format --prefix --remote --mtime"),
        reads=word_set("--add-file"),
        writes=word_set("-o --output"),
        executes=_TRANSPORT,
        recursive=True,
    ),
    "format-patch": replace(
        _SHOWN,
        folders=word_set("-o --output-directory"),
        reads=word_set("--signature-file"),
        writes_tree=".",
    ),
    "bundle": Program(operands=Operands.WRITE),
    "apply": replace(
        _CHANGES_FILES,
        values=letters("pC") | word_set("--exclude --include --whitespace"),
        folders=word_set("--directory"),
        writes=word_set("--build-fake-ancestor"),
    ),
    "am": replace(_CHANGES_FILES, values=letters("pC"), folders=word_set("--directory")),
    "worktree": replace(
        _CHANGES_FILES, values=letters("bB") | word_set("--reason"), inspects=word_set("list")
    ),
    "submodule": replace(
        _CHANGES_FILES,
        values=letters("b") | word_set("--depth --jobs"),
        inspects=word_set("status summary"),
    ),
    "config": Program(
        operands=Operands.TEXT,
        writes=word_set("-f --file"),
        reads=word_set("--blob"),
    ),
    "blame": Program(
        values=letters("LS") | word_set("--date --abbrev --since"),
        optional=letters("MC"),
        reads=word_set("--contents --ignore-revs-file"),
    ),
    **dict.fromkeys(word_set("commit tag notes"), _MESSAGE),
    # Copies what it adds into the repository, which later commands can show.
    "add": Program(
        flags=letters("nvfipuN") | word_set("--force --update --intent-to-add --patch"),
        values=word_set("--chmod"),
        lists=word_set("--pathspec-from-file"),
        recurses=letters("A") | word_set("--all"),
        recursive=True,
        default=".",
    ),
    # `--stdin-paths` reads names from the standard input.
    "cat-file": Program(
        flags=letters("tsep"), lists=_BATCH, optional=_BATCH, operands=Operands.READ
    ),
    "hash-object": Program(values=letters("t"), reads_input_names=True),
    "update-index": Program(reads_input_names=True),
    "filter-branch": replace(
        _CHANGES_FILES,
        executes=word_set("""
            --tree-filter --index-filter --msg-filter --commit-filter --env-filter --parent-filter
            --tag-name-filter --setup
        """),
    ),
    "bisect": Program(operands=Operands.TEXT, writes_tree="."),
}

LEAVES_FILES = word_set("""
    annotate branch check-attr check-ignore check-mailmap check-ref-format cherry column
    commit-graph commit-tree count-objects credential describe diff-files diff-index diff-tree
    fast-export
    for-each-ref fsck gc get-tar-commit-id help index-pack interpret-trailers ls-files ls-tree
    maintenance merge-base merge-tree mktag mktree multi-pack-index name-rev pack-objects pack-refs
    patch-id prune range-diff remote repack replace request-pull rev-list rev-parse shortlog
    show-branch show-index show-ref status stripspace symbolic-ref update-ref update-server-info var
    verify-commit verify-pack verify-tag version write-tree
""")
"""Subcommands without a table that change nothing in the working directory."""
RUN_WORDS = {"bisect": "run", "submodule": "foreach"}
"""Words after which the rest of the line is a command."""
RUNS_SETTINGS = word_set("config filter-branch send-email daemon instaweb")
"""Subcommands that change what git runs, or run programs that the settings name."""
MAY_TURN_OUT_TO_RUN = word_set("rebase difftool grep bisect submodule")
"""Subcommands for which a word known only at run time may be an option that runs a program."""
GLOBAL_FLAGS = word_set("""
    --version -v --help -h -P --no-pager --no-replace-objects --bare --literal-pathspecs
    --no-optional-locks --html-path --man-path --info-path --glob-pathspecs --no-lazy-fetch
    --noglob-pathspecs --icase-pathspecs -p --paginate
""")
GLOBAL_VALUES = word_set("-C -c --git-dir --work-tree --namespace --super-prefix --config-env")
GLOBAL_FOLDERS = word_set("-C --git-dir --work-tree")
SENSITIVE_GLOBALS = word_set("-C -c --git-dir --work-tree --config-env --exec-path")
"""Options before the subcommand that make git use another folder or other settings."""
