"""`clew doctor`: what works here, what is missing, and how to get it."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from clew._version import __version__
from clew.cli import doctor_checks as checks
from clew.cli import doctor_models as models
from clew.cli.doctor_findings import Check, Finding, Level, Machine
from clew.cli.paint import Paint, painter
from clew.cli.sanitize import one_line, sanitize_json
from clew.cli.streams import write_out
from clew.core.redaction import redact
from clew.sdk.folders import user_folder, working_folder

_COLOURS = {
    Level.OK: "green",
    Level.NOTE: "dim",
    Level.MISSING: "yellow",
    Level.BROKEN: "red",
}
_SHOWN = 400


def add_doctor(doctor: ArgumentParser) -> None:
    """Give the parser of the subcommand its flags."""
    doctor.description = (
        "Looks at this machine and changes nothing. The exit code is 1 when Clew cannot work here."
    )
    doctor.add_argument("--json", action="store_true", help="print everything as JSON")


def run_doctor(arguments: Namespace) -> int:
    """Examine this machine and say what was found."""
    machine = Machine(
        cwd=working_folder(),
        user_home=Path.home(),
        clew_home=user_folder(),
        environ=os.environ,
        servers=models.local_servers(os.environ),
    )
    findings = examine(machine)
    works = all(finding.level is not Level.BROKEN for finding in findings)
    if arguments.json:
        document = {"version": __version__, "works": works, "findings": findings}
        write_out(f"{sanitize_json(msgspec.json.encode(document).decode())}\n")
    else:
        paint = painter()
        write_out("".join(f"{_line(finding, paint)}\n" for finding in findings))
    return 0 if works else 1


def examine(machine: Machine) -> list[Finding]:
    """Look at everything, all at once; what is found holds no secret."""
    every: list[Check] = [
        checks.check_versions,
        checks.check_folders,
        checks.check_settings,
        checks.check_sqlite,
        checks.check_store,
        models.check_keys,
        *(partial(models.check_server, name) for name in machine.servers),
        models.check_embedded,
        checks.check_programs,
        checks.check_sandbox,
        checks.check_terminal,
    ]
    with ThreadPoolExecutor(len(every)) as pool:
        found = pool.map(partial(_carried_out, machine), every)
        return [_clean(finding) for findings in found for finding in findings]


def _carried_out(machine: Machine, check: Check) -> Sequence[Finding]:
    try:
        return list(check(machine))
    except OSError as error:
        text = f"this cannot be looked at: {error}"
        return [Finding(name="doctor", level=Level.NOTE, text=text)]


def _clean(finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, text=redact(finding.text))


def _line(finding: Finding, paint: Paint) -> str:
    level = paint(f"{finding.level:<8}", _COLOURS[finding.level])
    remedy = f" → {one_line(finding.remedy, _SHOWN)}" if finding.remedy else ""
    return f"{level}{finding.name:<10} {one_line(finding.text, _SHOWN)}{remedy}"
