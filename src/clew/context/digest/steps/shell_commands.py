"""Shell commands: split into simple commands and words, as far as reading them needs it."""

import re
from collections.abc import Sequence

_COMMAND_CHARS = 20_000
"""Characters of a command that are read; what is longer writes a file."""
_SEPARATOR = re.compile(r"(&&|\|\||;|\n|\||(?<![>&])&(?![>&]))")
_QUOTED = re.compile(r"'[^']*+'|\"(?:[^\"\\]|\\.)*+\"", re.DOTALL)
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*[\\'\"]?([\w-]+)")
_REDIRECTION = re.compile(r"&?\d?>{1,2}(?:&\d|[ \t]*\S+)|<{1,3}-?[ \t]*\S+")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_PREFIX = re.compile(
    r"^(?:(?:sudo|time|nice|nohup|command|exec|env|then|do|!|\()\s+|timeout\s+(?:-\S+\s+)*\S+\s+"
    r"|[A-Za-z_]\w*=\S*\s+|(?:uv|poetry|pipenv|hatch|pdm|bundle|pixi)\s+(?:run|exec)\s+"
    r"|(?:npx|bunx|pnpx)\s+(?:--?\S+\s+)*|(?:pnpm|yarn)\s+(?:dlx|exec)\s+|python\d?(?:\.\d+)? -m )"
)
_PROGRAM = re.compile(r"^(?:\S*/)?([\w.+-]+)(?=\s|$)")
_HIDDEN = re.compile(r"\x00(\d+)\x00")
_WORD_PART = r"[^ \t\r\n\"'\\]++|\\.|'[^']*+'|\"(?:[^\"\\]|\\.)*+\""
_WORD = re.compile(rf"[ \t\r\n]++|(?:{_WORD_PART})++", re.DOTALL)
_QUOTATION = re.compile(r"\\(.)|'([^']*+)'|\"((?:[^\"\\]|\\.)*+)\"", re.DOTALL)
_ESCAPED = re.compile(r"\\([\"\\])")
_BLANK = " \t\r\n"


def split_command(command: str) -> list[tuple[str, bool]]:
    """Split a shell command into simple commands; with each, whether a pipe follows it."""
    hidden: list[str] = []

    def hide(found: re.Match[str]) -> str:
        hidden.append(found.group())
        return f"\x00{len(hidden) - 1}\x00"

    command = command[:_COMMAND_CHARS].replace("\\\n", " ").replace("\x00", "")
    masked = drop_heredocs(command)
    if "'" in masked or '"' in masked:
        masked = _QUOTED.sub(hide, masked)
    pieces = _SEPARATOR.split(masked)
    parts: list[tuple[str, bool]] = []
    for place in range(0, len(pieces), 2):
        text = pieces[place]
        if "\x00" in text:
            text = _HIDDEN.sub(lambda found: hidden[int(found.group(1))], text)
        if text.strip():
            parts.append((text.strip(), pieces[place + 1 : place + 2] == ["|"]))
    return parts


def drop_heredocs(command: str) -> str:
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
    if "#" in part and "'" not in part and '"' not in part:
        part = _COMMENT.sub("", part)
    part = (_REDIRECTION.sub("", part) if ">" in part or "<" in part else part).strip()
    while prefix := _PREFIX.match(part):
        part = part[prefix.end() :]
    program = _PROGRAM.match(part)
    return program[1] + part[program.end() :] if program else part


def split_words(part: str) -> list[str]:
    """Split a simple command into its words, without quotes where they are closed.

    The words are those of `shlex.split`, which takes much longer.
    """
    if not any(mark in part for mark in "\"'\\"):
        return part.split()
    pieces = _WORD.findall(part)
    if sum(map(len, pieces)) < len(part):
        return part.split()
    return [_QUOTATION.sub(_unquote, piece) for piece in pieces if piece[0] not in _BLANK]


def _unquote(found: re.Match[str]) -> str:
    if found[3] is not None:
        return _ESCAPED.sub(r"\1", found[3])
    return found[1] if found[2] is None else found[2]


def skip_git_options(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words after `git` from its subcommand on, and the folder that `-C` names."""
    place, folder = 0, ""
    while place < len(words) and words[place].startswith("-"):
        takes_value = words[place] in {"-C", "-c"}
        if words[place] == "-C":
            folder = "".join(words[place + 1 : place + 2])
        place += 2 if takes_value else 1
    return list(words[place:]), folder
