"""`clew permissions log`: what was allowed and denied in a session, and why."""

from argparse import Namespace

import anyio

from clew.cli.paint import format_time
from clew.cli.streams import print_json, write_err, write_out
from clew.core.permissions import Verdict
from clew.core.sanitize import sanitize_line
from clew.sdk.folders import working_folder
from clew.sdk.permission_log import format_decision, load_decisions
from clew.sdk.session_admin import project_store

_MAX_LINE = 400


def run_permissions(arguments: Namespace) -> int:
    """Print the decisions of a session; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    place = project_store(working_folder())
    try:
        if place.is_empty and not arguments.id:
            write_err("there are no sessions in this folder")
            return 0
        decisions = await load_decisions(place, arguments.id)
    finally:
        await place.store.aclose()
    wanted = [one for one in decisions if one.verdict is Verdict.DENY or not arguments.denied]
    for one in wanted[-arguments.limit :]:
        if arguments.json:
            print_json(one)
        else:
            write_out(f"{format_time(one.at)}  {sanitize_line(format_decision(one), _MAX_LINE)}\n")
    if not wanted:
        kind = "was denied" if arguments.denied else "was decided"
        write_err(f"no tool call {kind} in this session")
    elif len(wanted) > arguments.limit:
        more = len(wanted) - arguments.limit
        write_err(f"{more:,} earlier; --limit {len(wanted)} shows all")
    return 0
