"""Parses a bash command line: what it runs, which files it uses, and what is uncertain.

The parser is conservative. Syntax that it does not understand completely is a doubt, and a line
with a doubt never runs without a question.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from clew.permissions.shell.builtins import find_risk, inspect_builtin
from clew.permissions.shell.command_line import (
    CommandLine,
    FileAccess,
    ShellCommand,
    ShellWord,
    program_name,
)
from clew.permissions.shell.compound_commands import COMPOUND_COMMANDS
from clew.permissions.shell.file_arguments import find_files, is_device
from clew.permissions.shell.interpreters import inspect_git, inspect_program
from clew.permissions.shell.made_programs import find_made_program
from clew.permissions.shell.simple_commands import SIMPLE_COMMANDS
from clew.permissions.shell.variables import Variables, list_variants
from clew.permissions.shell.visitor import BashVisitor, SimpleCommand
from clew.permissions.shell.wrappers import unwrap

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_LINE_LENGTH = 20_000
"""Longer lines are not parsed; they are always in doubt."""
_MAX_DOCUMENTS = 50
_MAX_COMMANDS = 500
_MAX_NESTING = 8
_HANDLERS = {**SIMPLE_COMMANDS, **COMPOUND_COMMANDS}
_CONTROL_CHARACTERS = re.compile(
    r"[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Characters that a terminal interprets or does not show."""
_SPLIT_OPERATOR = re.compile(r"[&|;<>$(){}`]\\\n[&|;<>$(){}`\"']")
_PROGRAM_NAME = re.compile(r"[\w./+:@%,~-]+|\[", re.ASCII)


@lru_cache(maxsize=512)
def parse_line(source: str) -> CommandLine:
    """Parse a command line.

    Never raises: whatever the parser does not understand is listed in `doubts`, and the other
    fields hold what it found nevertheless.
    """
    line = _parse_line(source, 0)
    made = find_made_program(line)
    return replace(line, made_program=made) if made else line


def strip_quotes(source: str) -> str:
    """Remove quotes and backslashes, to search for words that quoting may hide."""
    return re.sub(r"[\"'\\]", "", source)


def _parse_line(source: str, depth: int) -> CommandLine:
    if len(source) > MAX_LINE_LENGTH or source.count("<<") > _MAX_DOCUMENTS:
        return CommandLine(doubts=("it is too long to check",), is_list=False)
    if depth > _MAX_NESTING:
        return CommandLine(doubts=("it is nested too deeply",), is_list=False)
    data = source.encode(errors="replace")
    root = parse_tree(data)
    visitor = BashVisitor(data, _HANDLERS, Variables.start(data))
    visitor.doubts += _check_characters(source, data)
    if root.has_error or not _tokens_are_plain(root, data):
        visitor.doubts.append("the shell grammar cannot parse it")
    visitor.visit(root)
    return _LineBuilder(depth=depth).line(visitor)


def _tokens_are_plain(root: "Node", data: bytes) -> bool:
    """Does each operator token hold nothing but the operator? Some swallow the text before it."""
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None and not node.is_named and not node.child_count:
            text = data[node.start_byte : node.end_byte].strip(b" \t\n")
            if text != node.type.strip(" \t\n").encode():
                return False
        if cursor.goto_first_child() or cursor.goto_next_sibling():
            continue
        while cursor.goto_parent():
            if cursor.goto_next_sibling():
                break
        else:
            return True


def _check_characters(source: str, data: bytes) -> list[str]:
    doubts = []
    if _CONTROL_CHARACTERS.search(source):
        doubts.append("it has a control character")
    if data.count(b"?") != source.count("?"):
        doubts.append("it is not valid UTF-8")
    if _SPLIT_OPERATOR.search(source):
        doubts.append("a shell operator is split over two lines")
    return doubts


class _LineBuilder(Struct, kw_only=True):
    """Builds commands from words, and collects the files, directories and doubts they imply."""

    depth: int
    doubts: list[str] = field(default_factory=list)
    files: list[FileAccess] = field(default_factory=list)
    cd_targets: list[ShellWord] = field(default_factory=list)
    patterns: list[ShellWord] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)

    def line(self, visitor: BashVisitor) -> CommandLine:
        """Build the line from what the visitor found."""
        self.files += (touch for touch in visitor.files if not is_device(touch.path))
        for assigned in visitor.assignments:
            self.note(find_risk(assigned))
        if len(visitor.commands) > _MAX_COMMANDS:
            self.note("it has too many commands")
        commands = tuple(self.commands(visitor.commands[:_MAX_COMMANDS]))
        values = [
            *visitor.assignments,
            *(each for simple in visitor.commands for each in simple.assignments),
        ]
        return CommandLine(
            commands=commands,
            files=tuple(self.files),
            doubts=tuple(dict.fromkeys((*visitor.doubts, *self.doubts))),
            cd_targets=tuple(self.cd_targets),
            assigned=tuple(each.value for each in values if each.value is not None),
            inputs=(*visitor.inputs, *self.inputs),
            patterns=(*visitor.patterns, *self.patterns),
            is_list=visitor.is_list and not values,
        )

    def commands(self, found: Sequence[SimpleCommand]) -> list[ShellCommand]:
        """Build the commands, and connect those of a pipeline."""
        built: list[ShellCommand] = []
        for simple in found:
            command = self.simple(simple)
            if simple.source is not None:
                source = built[simple.source]
                command = replace(command, source=source)
                if source.name in ("echo", "printf"):
                    self.inputs.append(source.plain)
            built.append(command)
        return built

    def note(self, doubt: str) -> None:
        """Add a doubt unless it is empty."""
        if doubt:
            self.doubts.append(doubt)

    def simple(self, simple: SimpleCommand) -> ShellCommand:
        """Build a simple command, and check the variables set for it."""
        reads = simple.words[0].text == "read"
        for assigned in simple.assignments:
            if not (reads and assigned.name == "IFS"):
                self.note(find_risk(assigned))
        return self.command(simple.words, self.depth)

    def command(self, words: tuple[ShellWord, ...], depth: int) -> ShellCommand:
        """Build a command from words, with the commands that it runs."""
        if not words[0].known:
            self.note("the name of its program is known only at run time")
        elif not _PROGRAM_NAME.fullmatch(words[0].text):
            self.note("its program has an unusual name")
        if depth > _MAX_NESTING:
            self.note("it is nested too deeply")
            return ShellCommand(words=words)
        inside, builtin = unwrap(words), inspect_builtin(words)
        code = inspect_git(words) if program_name(words) == "git" else inspect_program(words)
        self.note(inside.doubt)
        self.note(builtin.doubt)
        for assigned in inside.assignments:
            self.note(find_risk(assigned))
        inner = [self.command(argv, depth + 1) for argv in inside.argvs + code.argvs]
        for script in inside.scripts + code.scripts:
            inner += self.script(script, depth + 1, remote=inside.remote)
        self.files += find_files(words)
        if builtin.cd_target is not None:
            self.cd_targets.append(builtin.cd_target)
        return ShellCommand(
            words=words,
            inner=tuple(inner),
            transparent=inside.transparent and bool(inner),
            sensitive_words=inside.sensitive_words + code.sensitive_words,
            opaque_reason=inside.opaque_reason or code.opaque_reason,
            inert=inside.inert or builtin.inert,
            variants=self.variants(words, depth),
        )

    def variants(self, words: tuple[ShellWord, ...], depth: int) -> tuple[ShellCommand, ...]:
        """Build the commands that a command with variables may be; none if one is in doubt."""
        found: list[ShellCommand] = []
        for chosen in list_variants(words):
            builder = _LineBuilder(depth=depth)
            found.append(builder.command(chosen, depth))
            if builder.doubts:
                return ()
        return tuple(found)

    def script(self, text: str, depth: int, *, remote: bool) -> tuple[ShellCommand, ...]:
        """Parse the text that a command passes to another shell."""
        line = _parse_line(text, depth)
        self.doubts += line.doubts
        if not remote:
            self.files += line.files
            self.cd_targets += line.cd_targets
            self.patterns += line.patterns
            self.inputs += line.inputs
        return line.commands


if TYPE_CHECKING:
    from tree_sitter import Language, Node


_OTHER_BYTES = bytes(ord("%") if byte > 0x7F else byte for byte in range(256))
"""To the shell a byte above 127 is an ordinary character, but not one of a variable name."""


def parse_tree(source: bytes) -> "Node":
    """Return the root of the syntax tree of `source`.

    The grammar gets a `%` in place of each byte above 127, so that offsets stay the same: its
    scanner looks characters up in a table for bytes, and crashes on others.
    """
    from tree_sitter import Parser  # noqa: PLC0415 - slow to import

    # Two threads must not share a parser, and a new one costs less than a lock.
    return Parser(_language()).parse(source.translate(_OTHER_BYTES)).root_node


@cache
def _language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language  # noqa: PLC0415

    return Language(tree_sitter_bash.language())
