"""Wrappers: programs that run another command which is among their arguments.

`timeout 5 rm x` runs `rm x`, `sh -c 'a; b'` runs `a` and `b`, `find -exec` runs its words.
An argument of a wrapper that the parser does not know is a doubt.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from clew.permissions.shell.builtins import Assignment
from clew.permissions.shell.command_line import ShellWord, program_name
from clew.permissions.shell.programs import (
    FD_EXEC,
    FIND_ACTIONS,
    FIND_EXEC,
    KEYWORDS,
    OPAQUE_WRAPPERS,
    OTHER_SHELLS,
    SHELL_FLAGS,
    SHELLS,
    SSH_FLAGS,
    SSH_VALUES,
    UNCERTAIN_BUILTINS,
    WRAPPERS,
    Wrapper,
)

_ASSIGNMENT = re.compile(r"(\w+)=(.*)", re.DOTALL)
_LONG_SHELL_FLAGS = frozenset({"--login", "--norc", "--noprofile", "--posix"})
_NOT_FOR_EVERY_SHELL = re.compile(r"\$['\"]|\{[^}]*(?:,|\.\.)|&>|\|&|[<>]\(|<<<|\[\[|\(\(")
APPENDED = "…"
"""The text of a word that stands for those that a wrapper appends, as `xargs` does."""
_APPENDED = ShellWord(APPENDED, APPENDED, known=False)


class NestedCommands(Struct, kw_only=True):
    """The commands that a command runs, and what makes its own effect uncertain."""

    argvs: list[tuple[ShellWord, ...]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    """Command lines for another shell."""
    assignments: list[Assignment] = field(default_factory=list)
    transparent: bool = False
    remote: bool = False
    """True when they run on another machine: their files are not local."""
    inert: bool = False
    sensitive_words: tuple[str, ...] = ()
    opaque_reason: str = ""
    doubt: str = ""


def unwrap(words: Sequence[ShellWord]) -> NestedCommands:
    """Find the commands in the arguments of a wrapper; the result is empty for other programs."""
    program = program_name(words)
    if program in KEYWORDS:
        return NestedCommands(doubt=f"`{program}` is in an unexpected position")
    if program in UNCERTAIN_BUILTINS:
        return NestedCommands(doubt=f"it uses `{program}`")
    if special := _SPECIAL.get(program):
        return special(words)
    if wrapper := WRAPPERS.get(program):
        return _unwrap(words, wrapper)
    if program in OPAQUE_WRAPPERS:
        return NestedCommands(
            sensitive_words=tuple(word.text for word in words),
            opaque_reason=f"it is uncertain what `{program}` runs",
        )
    return NestedCommands()


def _uncertain(words: Sequence[ShellWord]) -> NestedCommands:
    return NestedCommands(doubt=f"it is uncertain what `{program_name(words)}` runs")


def _unwrap(words: Sequence[ShellWord], wrapper: Wrapper) -> NestedCommands:
    inside = NestedCommands(transparent=wrapper.transparent)
    at = _after_options(words, wrapper)
    if at is None:
        return _uncertain(words)
    while wrapper.assigns and at < len(words) and (found := _ASSIGNMENT.match(words[at].text)):
        value = ShellWord(found[2], found[2], known=words[at].known)
        inside.assignments.append(Assignment(found[1], value, exported=True))
        at += 1
    own, rest = words[at : at + wrapper.operands], tuple(words[at + wrapper.operands :])
    if not all(word.known for word in own):
        return _uncertain(words)
    if rest and wrapper.operands and rest[0].text in ("-c", "--command"):
        return _add_script(words, rest[1:2], inside)
    if rest and wrapper.appends:
        rest = (*_mark_replaced(words[1:at], rest), _APPENDED)
    if rest:
        inside.argvs.append(rest)
    return inside


def _after_options(words: Sequence[ShellWord], wrapper: Wrapper) -> int | None:
    """Return the index after the wrapper's options, or None if one of them is unknown."""
    at = 1
    while at < len(words):
        word = words[at]
        if not word.known:
            return None
        if not word.text.startswith("-"):
            return at
        if word.text == "--":
            return at + 1
        step = _option_width(word.text, wrapper)
        if step == 0:
            return None
        at += step
    return at


def _option_width(option: str, wrapper: Wrapper) -> int:
    """Return the number of words that an option takes, 0 if the option is unknown."""
    if option in wrapper.flags or (option[1:].isdecimal() and "-n" in wrapper.values):
        return 1
    if option in wrapper.values:
        return 2
    if option.startswith("--"):
        return int(option.partition("=")[0] in wrapper.values | wrapper.flags)
    for at, letter in enumerate(option[1:], start=1):
        if f"-{letter}" in wrapper.values:
            return 2 if at == len(option) - 1 else 1
        if f"-{letter}" not in wrapper.flags:
            return 0
    return int(len(option) > 1)


def _mark_replaced(
    options: Sequence[ShellWord], rest: tuple[ShellWord, ...]
) -> tuple[ShellWord, ...]:
    """Mark the words in which `xargs -I` replaces a placeholder."""
    texts = [option.text for option in options]
    mark = ""
    for at, text in enumerate(texts):
        if text in ("-I", "--replace"):
            mark = texts[at + 1] if at + 1 < len(texts) else "{}"
        elif text.startswith(("-I", "--replace=")):
            mark = text.removeprefix("--replace=").removeprefix("-I")
    return _mark_unknown(rest, mark) if mark else rest


def _mark_unknown(words: Sequence[ShellWord], mark: str) -> tuple[ShellWord, ...]:
    return tuple(
        ShellWord(word.text, word.written, known=False) if mark in word.text else word
        for word in words
    )


def _add_script(
    words: Sequence[ShellWord], given: Sequence[ShellWord], inside: NestedCommands
) -> NestedCommands:
    """Add the command line that a wrapper passes to a shell."""
    if len(given) != 1 or not given[0].known:
        return NestedCommands(doubt=f"it passes commands to `{program_name(words)}`")
    inside.scripts.append(given[0].text)
    return inside


def _shell(words: Sequence[ShellWord]) -> NestedCommands:
    doubtful = NestedCommands(doubt=f"it passes commands to `{program_name(words)}`")
    at, runs_text = 1, False
    while at < len(words) and words[at].known and words[at].text.startswith(("-", "+")):
        option = words[at].text
        if option == "-o":
            at += 1
        elif option not in _LONG_SHELL_FLAGS:
            if not SHELL_FLAGS.fullmatch(option):
                return doubtful
            runs_text = runs_text or "c" in option
        at += 1
    if at >= len(words) or not words[at].known:
        return doubtful
    if program_name(words) != "bash" and _NOT_FOR_EVERY_SHELL.search(words[at].text):
        return NestedCommands(
            doubt="it uses bash syntax in another shell", scripts=[words[at].text]
        )
    return (
        _add_script(words, words[at : at + 1], NestedCommands(transparent=True))
        if runs_text
        else NestedCommands()
    )


def _other_shell(words: Sequence[ShellWord]) -> NestedCommands:
    if len(words) == 1 or not words[1].known or words[1].text.startswith(("-", "+")):
        return NestedCommands(doubt=f"it passes commands to `{program_name(words)}`")
    return NestedCommands()


def _su(words: Sequence[ShellWord]) -> NestedCommands:
    at = next((at for at, word in enumerate(words) if word.text in ("-c", "--command")), 0)
    return _add_script(words, words[at + 1 : at + 2] if at else (), NestedCommands())


def _eval(words: Sequence[ShellWord]) -> NestedCommands:
    """Parse the text so that deny rules see it; the line stays in doubt."""
    text = " ".join(word.text for word in words[1:])
    return NestedCommands(scripts=[text], doubt="it uses `eval`")


def _trap(words: Sequence[ShellWord]) -> NestedCommands:
    return NestedCommands(scripts=[word.text for word in words[1:2]], doubt="it uses `trap`")


def _command(words: Sequence[ShellWord]) -> NestedCommands:
    """Inspect `command`, which with `-v` only prints where a program is."""
    if len(words) > 1 and words[1].text in ("-v", "-V"):
        return NestedCommands(inert=True)
    return _unwrap(words, WRAPPERS["command"])


def _ssh(words: Sequence[ShellWord]) -> NestedCommands:
    at = _after_options(words, Wrapper(flags=SSH_FLAGS, values=SSH_VALUES))
    if at is None or at >= len(words) or not words[at].known:
        return _uncertain(words)
    options = tuple(word.text for word in words[1:at] if word.text.startswith(("-o", "-F")))
    inside = NestedCommands(remote=True, sensitive_words=options)
    rest = words[at + 1 :]
    if rest and rest[0].text == "--":
        rest = rest[1:]
    if rest:
        inside.scripts.append(" ".join(word.text for word in rest))
        known = all(word.known for word in rest)
        inside.doubt = "" if known else "it passes commands to `ssh`"
    return inside


def _find(words: Sequence[ShellWord]) -> NestedCommands:
    inside = NestedCommands(
        sensitive_words=tuple(word.text for word in words if word.text in FIND_ACTIONS)
    )
    at = 1
    while at < len(words):
        if words[at].text in FIND_EXEC:
            ends = (end for end in range(at, len(words)) if words[end].text in (";", "+"))
            end = next(ends, len(words))
            argv = _mark_unknown(words[at + 1 : end], "{}")
            inside.argvs += [argv] if argv else []
            at = end
        at += 1
    return inside


def _fd(words: Sequence[ShellWord]) -> NestedCommands:
    at = next((at for at, word in enumerate(words) if word.text in FD_EXEC), 0)
    argv = words[at + 1 :] if at else ()
    if argv:
        return NestedCommands(argvs=[(*_mark_unknown(argv, "{"), _APPENDED)])
    attached = any(word.text.startswith(("-x", "-X", "--exec")) for word in words[1:])
    return _uncertain(words) if attached else NestedCommands()


_SPECIAL: dict[str, Callable[[Sequence[ShellWord]], NestedCommands]] = {
    **dict.fromkeys(SHELLS, _shell),
    **dict.fromkeys(OTHER_SHELLS, _other_shell),
    "su": _su,
    "eval": _eval,
    "trap": _trap,
    "command": _command,
    "ssh": _ssh,
    "find": _find,
    "fd": _fd,
}
