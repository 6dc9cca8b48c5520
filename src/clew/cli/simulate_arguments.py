"""The flags of `clew simulate`."""

import argparse

from clew.cli.argument_parser import parse_count, parse_dollars, parse_window


def add_simulate(simulate: argparse.ArgumentParser) -> None:
    """Add the flags of the subcommand."""
    simulate.description = (
        "Replays sessions of Clew, Claude Code, Codex, Gemini CLI or pi with each context strategy,"
        " and reports what each would have cost and kept. Calls no model, unless --ask names one."
    )
    simulate.add_argument("files", nargs="+", metavar="FILE", help="a recording or a folder")
    simulate.add_argument(
        "--strategy", action="append", metavar="NAME", help="only this strategy; repeatable"
    )
    simulate.add_argument(
        "--model",
        default=argparse.SUPPRESS,
        help="use the limits of this model (default: the recorded one)",
    )
    simulate.add_argument(
        "--window",
        type=parse_window,
        default=argparse.SUPPRESS,
        metavar="TOKENS",
        help="context window (default: that of the model)",
    )
    simulate.add_argument(
        "--max-tokens",
        type=parse_window,
        metavar="N",
        help="compact at N tokens, below the threshold",
    )
    simulate.add_argument(
        "--no-lookups",
        dest="lookups",
        action="store_false",
        help="do not count calls that look up what left the view",
    )
    simulate.add_argument(
        "--chart",
        metavar="FILE.svg",
        help="write a chart as SVG: of the longest session, or of the scores",
    )
    simulate.add_argument("--json", action="store_true", help="print JSON")
    simulate.add_argument(
        "--verbose", action="store_true", help="also print a table for each session"
    )
    _add_ask(simulate)


def _add_ask(simulate: argparse.ArgumentParser) -> None:
    group = simulate.add_argument_group(
        "blind test",
        "MODEL writes questions about the session at its compactions, answers each from one"
        " compacted view, and grades the answers without knowing the views. States the cost"
        " and asks before it begins; a test that was stopped continues with the same command."
        " FILE can also be the id or name of a stored session.",
    )
    group.add_argument("--ask", metavar="MODEL", help="test with this model, NAME or PROVIDER/NAME")
    group.add_argument(
        "--questions", type=parse_count, metavar="N", help="questions per compaction (default: 12)"
    )
    group.add_argument(
        "--points",
        type=parse_count,
        metavar="N",
        help="compactions per session, at most (default: 3)",
    )
    group.add_argument(
        "--views",
        metavar="NAME,…",
        help="what readers get: full, recorded (summary), newest-Nk (text), rules-Nk (Clew without"
        " a model), summary-Nk (Clew and a summary by MODEL), recall-Nk (rules and Recall), with N"
        " thousand tokens (default:"
        " full,recall-4k,summary-16k,rules-16k,rules-4k,recorded,newest-16k)",
    )
    group.add_argument(
        "--ask-window",
        type=parse_window,
        metavar="TOKENS",
        help="context window of MODEL, if it is unknown to Clew",
    )
    group.add_argument(
        "--out", metavar="DIR", help="folder for the replies (default: under ~/.clew)"
    )
    group.add_argument("--yes", action="store_true", help="do not ask whether to begin")
    group.add_argument(
        "--budget",
        type=parse_dollars,
        default=argparse.SUPPRESS,
        metavar="USD",
        help="stop before this run costs more than USD",
    )
