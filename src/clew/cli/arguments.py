"""The flags of `clew`, and the session that they describe."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from clew.cli.argument_parser import (
    CommandParser,
    parse_count,
    parse_dollars,
    parse_port,
    parse_rules,
    parse_window,
    suggest,
)
from clew.cli.subcommands import SUMMARIES, add_subcommands
from clew.core.permissions import PermissionMode
from clew.core.sanitize import sanitize_line
from clew.sdk.folders import working_folder
from clew.sdk.session_spec import EFFORTS, SessionSpec

OUTPUT_FORMATS = ("text", "json", "stream-json")
INPUT_FORMATS = ("text", "stream-json")
_USAGE = "clew [FLAGS] [PROMPT]  or  clew -p [PROMPT] [FLAGS]  or  clew COMMAND …"
_DESCRIPTION = "Runs long sessions with a language model. PROMPT starts one with a first prompt."
_SHOWN = 40


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line: a subcommand, or flags and a first prompt.

    On bad usage it prints an error and exits with code 2.
    """
    if argv and argv[0] in SUMMARIES:
        return parser().parse_args(argv)
    top = _top_parser()
    top.add_argument("start", nargs="?", metavar="PROMPT", help=argparse.SUPPRESS)
    # Flags before a subcommand, which has others: `clew --base-url URL simulate FILE --ask MODEL`.
    given = [each for each in argv if each not in ("-h", "--help")]
    known = argparse.ArgumentParser.parse_known_args(top, given)[0]
    is_command = known.start in SUMMARIES and (known.prompt is None or known.start == "schedule")
    if is_command and "--" not in argv:
        return parser().parse_args(argv)
    found = top.parse_args(argv)
    found.command = None
    if found.prompt == "" and found.start is not None:
        # `clew -p --model NAME PROMPT`: the value of -p is at the end.
        found.prompt, found.start = found.start, None
    _check_start(top, argv, found)
    _check_print_flags(top, found)
    return found


def parser() -> argparse.ArgumentParser:
    """Return a parser with the flags of a session and all subcommands."""
    top = _top_parser()
    top.set_defaults(start=None)
    add_subcommands(top)
    return top


def _check_start(
    top: argparse.ArgumentParser, argv: Sequence[str], found: argparse.Namespace
) -> None:
    """Reject a prompt together with -p, and one that is a misspelled subcommand."""
    start = found.start
    if start is None:
        return
    if found.prompt is not None:
        top.error("give one prompt: the one of -p, or the one at the end")
    if "--" not in argv and not start[:1].isspace() and len(start.split()) == 1:
        hint = suggest(start, SUMMARIES)
        if hint:
            shown = sanitize_line(start, _SHOWN)
            top.error(f"there is no command {shown}{hint} For a prompt: clew -- {shown}")


def _check_print_flags(top: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    if found.prompt is not None:
        return
    given = {
        "--output-format": found.output_format != "text",
        "--input-format": found.input_format != "text",
        "--json-schema": found.json_schema is not None,
    }
    for flag, is_given in given.items():
        if is_given:
            top.error(f"{flag} works in print mode only: add -p")


def _top_parser() -> CommandParser:
    top = CommandParser(
        prog="clew",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_list_commands(),
        add_help=False,
    )
    _add_session_group(top.add_argument_group("Session"))
    _add_model_group(top.add_argument_group("Model"))
    _add_print_group(top.add_argument_group("Print mode"))
    _add_tools_group(top.add_argument_group("Tools and permissions"))
    other = top.add_argument_group("Other")
    other.add_argument(
        "--log",
        dest="log_level",
        choices=("events", "requests", "raw"),
        metavar="LEVEL",
        help="write a session log: events, requests or raw",
    )
    other.add_argument(
        "--plain", action="store_true", help="plain lines: no colours, nothing is redrawn"
    )
    other.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    other.add_argument("-h", "--help", action="help", help="print this help and exit")
    return top


def _list_commands() -> str:
    """Return the subcommands in two columns."""
    rows = [f"{name:<12} {summary:<28}" for name, summary in SUMMARIES.items()]
    half = (len(rows) + 1) // 2
    pairs = zip(rows[:half], [*rows[half:], ""], strict=False)
    lines = [f"  {left} {right}".rstrip() for left, right in pairs]
    return "\n".join(["Commands (clew COMMAND --help explains one):", *lines])


def _add_session_group(group: argparse._ArgumentGroup) -> None:
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-c",
        "--continue",
        dest="latest",
        action="store_true",
        help="resume the most recent session of this folder",
    )
    which.add_argument(
        "-r",
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="resume a session by id or name, or choose one",
    )
    which.add_argument("--fork", metavar="ID", help="resume a copy of a session")
    group.add_argument("--connect", metavar="URL", help="use a session of this `clew serve`")
    group.add_argument(
        "--append-system-prompt", metavar="TEXT", help="add instructions to the system prompt"
    )


def _add_model_group(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", metavar="NAME", help="model, as NAME or PROVIDER/NAME")
    group.add_argument(
        "--provider", metavar="NAME", help="provider of the model, such as anthropic"
    )
    group.add_argument(
        "--base-url", metavar="URL", help="server; OpenAI-compatible without --provider"
    )
    group.add_argument(
        "--window", type=parse_window, metavar="TOKENS", help="context window of the model"
    )
    group.add_argument(
        "--effort", choices=EFFORTS, metavar="LEVEL", help="reasoning effort: low, medium or high"
    )
    group.add_argument(
        "--budget", type=parse_dollars, metavar="USD", help="stop before the session costs more"
    )
    group.add_argument(
        "--port",
        type=parse_port,
        default=0,
        metavar="PORT",
        help="port for the embedded model (default: any)",
    )


def _add_print_group(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-p",
        "--print",
        dest="prompt",
        nargs="?",
        const="",
        metavar="PROMPT",
        help="print the answer and exit; reads piped input too",
    )
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="text",
        metavar="FORMAT",
        help="text, json or stream-json (default: text)",
    )
    group.add_argument(
        "--input-format",
        choices=INPUT_FORMATS,
        default="text",
        metavar="FORMAT",
        help="text, or stream-json for prompts and answers",
    )
    group.add_argument(
        "--detach", action="store_true", help="let `clew worker` do it; prints the task id"
    )
    group.add_argument(
        "--json-schema", metavar="FILE", help="answer with JSON that satisfies the schema"
    )


def _add_tools_group(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--permission-mode",
        choices=[str(mode) for mode in PermissionMode],
        metavar="MODE",
        help="plan, default, acceptEdits or bypassPermissions",
    )
    for name, words in (
        ("allowed", "calls that need no permission, as Bash(git *)"),
        ("disallowed", "calls that never run, as WebFetch,Bash(rm *)"),
    ):
        group.add_argument(
            f"--{name}-tools",
            action="extend",
            type=parse_rules,
            default=[],
            metavar="RULES",
            help=words,
        )
    group.add_argument(
        "--add-dir",
        dest="add_dirs",
        action="append",
        default=[],
        metavar="DIR",
        help="another folder that tools may read; repeatable",
    )
    group.add_argument(
        "--plugin-dir",
        dest="plugin_folders",
        action="append",
        default=[],
        metavar="DIR",
        help="load the plugin in this folder; repeatable",
    )
    group.add_argument(
        "--max-turns", type=parse_count, metavar="N", help="model calls for one prompt"
    )
    group.add_argument(
        "--sandbox",
        choices=("auto", "on", "off"),
        metavar="WHEN",
        help="run commands in a sandbox: auto, on or off",
    )
    group.add_argument(
        "--no-network", dest="network", action="store_false", help="no network in the sandbox"
    )
    group.add_argument(
        "--agent-processes", action="store_true", help="run each agent in a process of its own"
    )


def session_spec(arguments: argparse.Namespace, *, resume: str = "") -> SessionSpec:
    """Return the session that the flags describe.

    Args:
        arguments: The flags.
        resume: Another session, which the user opened later: it keeps its own model and mode.
    """
    spec = SessionSpec(
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
        agent_processes=arguments.agent_processes,
        window=arguments.window,
        budget_usd=arguments.budget,
        max_turns=arguments.max_turns,
        log_level=arguments.log_level or "",
        allowed_tools=tuple(arguments.allowed_tools),
        disallowed_tools=tuple(arguments.disallowed_tools),
        effort=arguments.effort or "",
        append_system_prompt=arguments.append_system_prompt or "",
        add_dirs=tuple(arguments.add_dirs),
        plugin_folders=tuple(str(Path(one).absolute()) for one in arguments.plugin_folders),
    )
    if not resume:
        return spec
    return replace(
        spec, provider="", base_url="", model="", window=None, permission_mode="", effort=""
    )
