"""Run benchmarks: all of them in order, or those that are named.

Each writes its own sections of the results and leaves the others as they are.
"""

import argparse
from collections.abc import Callable, Mapping

from benchmarks import (
    chat_recall,
    estimator,
    fill,
    keys,
    overhead,
    persistence,
    recall,
    retention,
    search,
    server,
    speed,
    startup,
    strategies,
    summary_forms,
    telemetry,
    token_priors,
    validity,
)

BENCHMARKS: Mapping[str, Callable[[], None]] = {
    "startup": startup.main,
    "overhead": overhead.main,
    "telemetry": telemetry.main,
    "estimator": estimator.main,
    "token_priors": token_priors.main,
    "recall": recall.main,
    "retention": retention.main,
    "chats": chat_recall.main,
    "fill": fill.main,
    "validity": validity.main,
    "speed": speed.main,
    "strategies": strategies.main,
    "summaries": summary_forms.main,
    "persistence": persistence.main,
    "search": search.main,
    "keys": keys.main,
    "server": server.main,
}
GROUPS = {"context": ("recall", "retention", "chats", "fill", "validity", "speed")}
"""Names for several benchmarks."""


def main() -> None:
    """Run the benchmarks one after the other, so that none disturbs another."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [*BENCHMARKS, *GROUPS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(names)}")
    wanted = parser.parse_args().names or list(BENCHMARKS)
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(names)}")
    for name in wanted:
        for member in GROUPS.get(name, (name,)):
            BENCHMARKS[member]()


if __name__ == "__main__":
    main()
