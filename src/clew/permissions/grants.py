"""What a person allowed for the rest of a session: calls of the same shape, not a whole tool."""

from pathlib import Path

from msgspec import Struct

from clew.core.access import Access, Risk
from clew.permissions.programs import RUNNERS, UNFORGIVING
from clew.permissions.rules import resolved
from clew.permissions.shell import Command, split


class Grant(Struct, frozen=True):
    """A shape of calls that need not be asked about again."""

    tool: str
    shape: tuple[tuple[str, ...], ...]


def grant_for(access: Access, cwd: Path) -> Grant:
    """Return the shape of a call.

    A command line has the first two words of each of its simple commands; a path has the
    folder it is in; anything else, and every line that is in doubt, is only like itself.
    """
    return Grant(access.tool, _shape(access, cwd))


def covers(grant: Grant, access: Access, cwd: Path) -> bool:
    """Does an earlier grant hold for this call?"""
    return grant.tool == access.tool and grant.shape == _shape(access, cwd)


def _shape(access: Access, cwd: Path) -> tuple[tuple[str, ...], ...]:
    exact = (("exactly", access.target),)
    if access.is_path:
        target = resolved(access.target, cwd)
        if target is None:
            return exact
        return (("folder", str(target if target.is_dir() else target.parent)),)
    if access.risk is not Risk.EXECUTE:
        return exact
    line = split(access.target)
    if line.doubt or not line.commands or any(map(_is_delicate, line.commands)):
        return exact
    return tuple(("begins", *command.words[:2]) for command in line.commands)


def _is_delicate(command: Command) -> bool:
    return command.expands or command.program in RUNNERS or command.program in UNFORGIVING
