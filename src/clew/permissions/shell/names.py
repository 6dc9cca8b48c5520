"""Which variables a line may set without changing what its commands do.

A variable is harmless when it is known to be, or when neither its name nor its value can
make a program run, load or find something else.
"""

import re

from clew.permissions.shell.walk import Assigned

_KNOWN = re.compile(
    r"""(?x)
    NODE_ENV | CI | DEBUG | VERBOSE | LANG | LANGUAGE | LC_\w+ | TZ | TERM | COLORTERM | COLUMNS
    | LINES | NO_COLOR | FORCE_COLOR | CLICOLOR | CLICOLOR_FORCE | DO_NOT_TRACK | PORT | HOST
    | RUST_LOG | RUST_BACKTRACE | CARGO_TERM_COLOR | CARGO_INCREMENTAL | CGO_ENABLED | GOOS
    | GOARCH | GOMAXPROCS | PYTHONUNBUFFERED | PYTHONDONTWRITEBYTECODE | PYTHONHASHSEED
    | PYTHONIOENCODING | PYTHONUTF8 | PYTHONFAULTHANDLER | PYTHONDEVMODE | DOCKER_BUILDKIT
    | COMPOSE_PROJECT_NAME | RAILS_ENV | RACK_ENV | APP_ENV | FLASK_ENV | FLASK_DEBUG | MIX_ENV
    | DJANGO_SETTINGS_MODULE | DEBIAN_FRONTEND | NEXT_TELEMETRY_DISABLED | HUSKY
    """
)
_DANGEROUS = re.compile(
    r"""(?xi)
    (?: IFS | ENV | PS\d | CC | CXX | CPP | AS | AR | LD | FC | AWK | MAKE | SHELLOPTS | BASHOPTS
      | GLOBIGNORE | EXECIGNORE | OPTIND | OPTARG | FIGNORE | FUNCNEST | HOSTFILE | INPUTRC
      | TERMINFO\w* | TERMCAP | HOSTALIASES | LOCALDOMAIN | RES_OPTIONS | NLSPATH | LESS\w*
      | MORE | MAN\w* | GREP_\w+ | TAR_\w+ | DISPLAY | _ )
    | (?: LD_ | DYLD_ | GIT_ | BASH | PYTHON | PERL | RUBY | GEM_ | BUNDLE | NODE_ | NPM_
        | YARN_ | PNPM_ | COREPACK_ | DENO_ | BUN_ | CARGO_ | RUST | GO[A-Z]*FLAGS | GOPROXY
        | GOROOT | GOBIN | PIP_ | UV_ | POETRY_ | CONDA_ | VIRTUAL_ENV | SSH_ | DOCKER_ | COMPOSE_
        | KUBE | HELM_ | AWS_ | GOOGLE_ | AZURE_ | XDG_ | JAVA_ | JDK_ | MAVEN_ | GRADLE_
        | PHP_ | LUA_ | TCL | HOMEBREW_ | CMAKE_ | MALLOC_ | GCONV_ | ASAN_ | HIST | SUDO_
        | PROMPT_ | COMP_ | READLINE_ | FC | MAIL ) \w*
    | \w* (?: PATH | PRELOAD | OPTIONS | OPTS | FLAGS | ARGS | COMMAND | EXEC | SHELL | WRAPPER
            | EDITOR | VISUAL | PAGER | BROWSER | CONFIG | HOME | PROXY | PLUGIN | LOADER | HOOK
            | COMPILER | STARTUP | ASKPASS | INDEX | REGISTRY | MIRROR | LIBRARY | MODULE
            | REQUIRE | SCRIPT | PROGRAM | TMPDIR | TEMPDIR ) \w*
    | \w+ _ (?: CMD | BIN | RC | RCFILE | LINKER | RUNNER | INIT )
    """
)
_INERT_VALUE = re.compile(r"[\w.,:+%@*=-]{0,200}")
_TAME_VALUE = re.compile(r"(?!/|~)(?!.*\.\.)[^\n\0]{0,500}")


def problem_with(assigned: Assigned) -> str:
    """Say why setting a variable may change what is run, or nothing."""
    if not _KNOWN.fullmatch(assigned.name) and _DANGEROUS.fullmatch(assigned.name):
        return f"it sets `{assigned.name}`, which may change what is run"
    if assigned.exported and not _is_tame(assigned):
        return f"it sets `{assigned.name}` to something that a program may run or load"
    return ""


def _is_tame(assigned: Assigned) -> bool:
    value = assigned.value
    if value is None or not value.known:
        return False
    allowed = _TAME_VALUE if _KNOWN.fullmatch(assigned.name) else _INERT_VALUE
    return bool(allowed.fullmatch(value.text))
