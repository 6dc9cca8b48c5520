"""The `clew` command. Errors of usage end in a message, never in a traceback."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from clew._version import __version__

if TYPE_CHECKING:
    from argparse import Namespace

_PIPE_CLOSED = 141
"""The exit code of a program that writes to a closed pipe."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Without `argv` this is the program `clew`: it takes the arguments of the process, and removes
    keys from the environment of the process.

    0 for success, 1 for an error, 2 for bad usage, 130 after Ctrl-C, and 141 when the reader of
    standard output has exited.
    """
    is_program, argv = argv is None, sys.argv[1:] if argv is None else argv
    if list(argv) in (["--version"], ["-V"]):
        print(f"clew {__version__}")
        return 0
    return _main(argv, is_program=is_program)


def _main(argv: Sequence[str], *, is_program: bool) -> int:
    # Imported here to keep `clew --version` fast.
    import logging  # noqa: PLC0415

    from clew.cli import streams  # noqa: PLC0415
    from clew.cli.argument_parser import UsageError  # noqa: PLC0415
    from clew.cli.arguments import parse_arguments  # noqa: PLC0415
    from clew.cli.environment import take_secrets  # noqa: PLC0415
    from clew.core.errors import AbortError, ClewError  # noqa: PLC0415

    if not streams.prepare_streams():
        streams.write_err("standard output is closed")
        return 1
    if "CLEW_DEBUG" not in os.environ:
        logging.getLogger().addHandler(logging.NullHandler())
    # A caller of this function keeps its environment.
    environ = take_secrets() if is_program else None
    try:
        arguments = parse_arguments(argv)
        arguments.environ = environ
        code = _dispatch(arguments)
        streams.write_out("")
    except AbortError:
        streams.write_err("aborted; the partial answer is saved")
        return 130
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        streams.discard_output()
        return _PIPE_CLOSED
    except streams.OutputLost as lost:
        if lost.closed:
            return _PIPE_CLOSED
        streams.write_err(str(lost))
        return 1
    except ClewError as error:
        streams.write_err(str(error))
        return 2 if isinstance(error, UsageError) else 1
    except OSError as error:
        streams.discard_output()
        streams.write_err(f"{error.strerror or error}")
        return 1
    return code


def _dispatch(arguments: "Namespace") -> int:
    if arguments.version:
        print(f"clew {__version__}")
        return 0
    if arguments.command:
        # Each subcommand is a module with a function of its name; only the one that runs is
        # imported.
        module = import_module(f"clew.cli.{arguments.command}")
        run: Callable[[Namespace], int] = getattr(module, f"run_{arguments.command}")
        return run(arguments)
    if arguments.prompt is not None:
        from clew.cli.print_mode import run_print  # noqa: PLC0415

        return run_print(arguments)
    from clew.cli.prompt import run_prompt  # noqa: PLC0415

    return run_prompt(arguments)
