"""Shell commands: split into simple commands and words, as far as reading them needs it."""

import re
import shlex

_COMMAND_CHARS = 20_000
"""Characters of a command that are read; what is longer writes a file."""
_SEPARATOR = re.compile(r"(&&|\|\||;|\n|\|)")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_HEREDOC = re.compile(r"<<-?[ \t]*['\"]?(\w+)")
_REDIRECTION = re.compile(r"\d?>{1,2}(?:&\d|[ \t]*\S+)")
_PREFIX = re.compile(
    r"^(?:(?:sudo|time|nice|nohup|command|exec|env|then|do|!|\()\s+|timeout\s+(?:-\S+\s+)*\S+\s+"
    r"|[A-Za-z_]\w*=\S*\s+|(?:uv|poetry|pipenv|hatch|pdm|bundle|pixi)\s+(?:run|exec)\s+"
    r"|(?:npx|bunx|pnpx)\s+(?:--?\S+\s+)*|(?:pnpm|yarn)\s+(?:dlx|exec)\s+|python\d?(?:\.\d+)? -m )"
)
_PROGRAM = re.compile(r"^(?:\S*/)?([\w.+-]+)(?=\s|$)")
_HIDDEN = re.compile(r"\x00(\d+)\x00")


def split_command(command: str) -> list[tuple[str, bool]]:
    """Split a shell command into simple commands; with each, whether a pipe follows it."""
    hidden: list[str] = []

    def hide(found: re.Match[str]) -> str:
        hidden.append(found.group())
        return f"\x00{len(hidden) - 1}\x00"

    command = command[:_COMMAND_CHARS].replace("\\\n", " ")
    masked = _QUOTED.sub(hide, _drop_heredocs(command))
    pieces = _SEPARATOR.split(masked)
    parts: list[tuple[str, bool]] = []
    for place in range(0, len(pieces), 2):
        text = pieces[place]
        if "\x00" in text:
            text = _HIDDEN.sub(lambda found: hidden[int(found.group(1))], text)
        if text.strip():
            parts.append((text.strip(), pieces[place + 1 : place + 2] == ["|"]))
    return parts


def _drop_heredocs(command: str) -> str:
    """Return a command without the text that its here-documents contain."""
    if "<<" not in command:
        return command
    kept: list[str] = []
    end = ""
    for line in command.split("\n"):
        if end:
            end = "" if line.strip() == end else end
            continue
        found = _HEREDOC.search(line)
        end = found.group(1) if found else ""
        kept.append(line)
    return "\n".join(kept)


def strip_prefixes(part: str) -> str:
    """Return a simple command without redirections, variables, `timeout`, `npx` and the like."""
    part = (_REDIRECTION.sub("", part) if ">" in part else part).strip()
    while (shorter := _PREFIX.sub("", part, count=1)) != part:
        part = shorter
    return _PROGRAM.sub(r"\1", part, count=1)


def split_words(part: str) -> list[str]:
    """Split a simple command into its words, without quotes where they are closed."""
    if not any(mark in part for mark in "\"'\\"):
        return part.split()
    try:
        return shlex.split(part)
    except ValueError:
        return part.split()
