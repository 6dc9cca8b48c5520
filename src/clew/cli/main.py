"""The `clew` command. What a person did wrong ends in a sentence, never in a traceback."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from clew._version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 for an error, 2 for bad usage."""
    argv = sys.argv[1:] if argv is None else argv
    if list(argv) in (["--version"], ["-V"]):
        print(f"clew {__version__}")
        return 0
    return _main(argv)


def _main(argv: Sequence[str]) -> int:
    # Imported here so that `clew --version` answers at once.
    from clew.cli.arguments import parser  # noqa: PLC0415
    from clew.core.errors import AbortError, ClewError  # noqa: PLC0415

    arguments = parser().parse_args(argv)
    try:
        return _dispatch(arguments)
    except AbortError:
        print("\nclew: aborted; what had arrived is saved", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ClewError as error:
        print(f"clew: {error}", file=sys.stderr)
        return 1


def _dispatch(arguments: Namespace) -> int:
    if arguments.version:
        print(f"clew {__version__}")
        return 0
    match arguments.command:
        case "models":
            from clew.cli.models import run_models  # noqa: PLC0415

            return run_models(arguments)
        case "demo":
            from clew.cli.demo import run_demo  # noqa: PLC0415

            return run_demo(arguments)
        case _ if arguments.prompt is not None:
            from clew.cli.print_mode import run_print  # noqa: PLC0415

            return run_print(arguments)
        case _:
            from clew.cli.prompt import run_prompt  # noqa: PLC0415

            return run_prompt(arguments)
