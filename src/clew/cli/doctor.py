"""`clew doctor`: what works here, what is missing, and how to get it."""

import importlib.util
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator

from clew._version import __version__
from clew.cli.environment import own_environment
from clew.cli.paint import Paint, make_painter
from clew.cli.streams import print_json, write_out
from clew.core.sanitize import sanitize_line
from clew.sdk.diagnostics import Finding, Level, Machine, diagnose, this_machine
from clew.sdk.folders import working_folder
from clew.sdk.worktree_checks import clean_worktrees

_COLOURS = {
    Level.OK: "green",
    Level.NOTE: "dim",
    Level.MISSING: "yellow",
    Level.BROKEN: "red",
}
_MAX_TEXT = 400


def run_doctor(arguments: Namespace) -> int:
    """Check this machine, or clean up, and print the findings.

    Returns 1 when Clew cannot work here.
    """
    machine = this_machine(working_folder(), own_environment(arguments))
    if arguments.clean_worktrees:
        findings = list(clean_worktrees(machine))
    else:
        findings = diagnose(machine, extra=[check_terminal])
    works = all(finding.level is not Level.BROKEN for finding in findings)
    if arguments.json:
        document = {"version": __version__, "works": works, "findings": findings}
        print_json(document)
    else:
        paint = make_painter()
        write_out("".join(f"{_format(finding, paint)}\n" for finding in findings))
    return 0 if works else 1


def _format(finding: Finding, paint: Paint) -> str:
    level = paint(f"{finding.level:<8}", _COLOURS[finding.level])
    remedy = f" → {sanitize_line(finding.remedy, _MAX_TEXT)}" if finding.remedy else ""
    return f"{level}{finding.name:<10} {sanitize_line(finding.text, _MAX_TEXT)}{remedy}"


def check_terminal(machine: Machine) -> Iterator[Finding]:
    """Check what the terminal supports."""
    term = machine.environ.get("TERM", "")
    encoding = sys.stdout.encoding
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        text = "none: standard input or output is not a terminal, so there is no line editor"
        yield Finding(name="terminal", level=Level.NOTE, text=text)
    elif term in ("", "dumb", "unknown"):
        yield Finding(
            name="terminal",
            level=Level.NOTE,
            text=f"TERM is {term!r}: no line editor and no colours",
            remedy="set TERM to the type of your terminal, such as xterm-256color",
        )
    else:
        size = shutil.get_terminal_size()
        colours = "no colours (NO_COLOR is set)" if "NO_COLOR" in machine.environ else "colours"
        text = f"{term}, {size.columns}×{size.lines}, {encoding}, {colours}"
        yield Finding(name="terminal", level=Level.OK, text=text)
    if encoding.lower().replace("-", "") != "utf8":
        yield Finding(
            name="encoding",
            level=Level.NOTE,
            text=f"standard output is {encoding}; some characters are replaced",
            remedy="set LANG to a UTF-8 locale, such as C.UTF-8",
        )
    if importlib.util.find_spec("prompt_toolkit") is None:
        yield Finding(
            name="editor",
            level=Level.MISSING,
            text="prompt_toolkit is not installed; there is no line editor",
            remedy="pip install prompt_toolkit",
        )
