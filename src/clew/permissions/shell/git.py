"""What `git` can be made to run."""

from collections.abc import Sequence

from clew.permissions.shell.coding import NEVER
from clew.permissions.shell.line import Word
from clew.permissions.shell.programs import (
    GIT_DELICATE,
    GIT_DELICATE_SUBCOMMANDS,
    GIT_RUNS,
    GIT_RUNS_BY_SUBCOMMAND,
    GIT_VALUES,
)
from clew.permissions.shell.runners import Inside

_SETTINGS = frozenset({"-c", "--config-env", "--exec-path"})


def judge_git(words: Sequence[Word]) -> Inside:
    """Find the options and subcommands with which git runs something else."""
    inside = Inside()
    at = 1
    while at < len(words) and words[at].known and words[at].text.startswith("-"):
        name, equals, value = words[at].text.partition("=")
        if name in GIT_VALUES and not equals:
            at += 1
            value = words[at].text if at < len(words) else ""
        at += 1
        if name not in GIT_DELICATE or (name == "-C" and value == "."):
            continue
        inside.caution += (name,)
        if name in _SETTINGS:
            inside.hides = f"`git {name}` may make git run something"
        if "=!" in value:
            inside.scripts.append(value.partition("=!")[2])
    if at < len(words) and words[at].known:
        _subcommand(words[at].text, words[at + 1 :], inside)
    elif at < len(words):
        inside.caution += (NEVER,)
    return inside


def _subcommand(name: str, rest: Sequence[Word], inside: Inside) -> None:
    own = GIT_RUNS_BY_SUBCOMMAND.get(name, frozenset())
    if name in GIT_DELICATE_SUBCOMMANDS:
        inside.caution += (name,)
    for at, word in enumerate(rest):
        option, equals, value = word.text.partition("=")
        attached = next((each for each in own if len(each) == 2 and word.text[:2] == each), "")
        if option in GIT_RUNS | own:
            inside.caution += (option,)
        elif attached:
            inside.caution += (word.text,)
            equals, value = "=", word.text[2:]
        elif own and not word.known:
            inside.caution += (NEVER,)
            continue
        else:
            continue
        if option != "--output":
            inside.hides = "an option makes `git` run something"
            _run(option, value if equals else None, rest[at + 1 :], inside)


def _run(option: str, value: str | None, following: Sequence[Word], inside: Inside) -> None:
    if option == "run" and following:
        inside.argvs.append(tuple(following))
    elif value is not None:
        inside.scripts.append(value)
    else:
        count = len(following) if option == "foreach" else 1
        inside.scripts.append(" ".join(word.text for word in following[:count]))
