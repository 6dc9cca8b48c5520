"""Run corpora of attacks and print one table: all of them, or those that are named.

The exit code is 1 if an attack failed. `--write` puts the table into docs/safety.md. With
`--results FILE`, runs of a few corpora each add up to one table.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio

from attacks import (
    damaged_stores,
    faults,
    hostile_folders,
    hostile_servers,
    http_server,
    permissions,
    read_only_commands,
    sandbox,
    secrets,
    shell_fuzzer,
    web_hosts,
)
from attacks.corpus import Corpus, CorpusResult, Outcome, Status, carry_out
from attacks.table import PAGE, add_results, format_markdown, format_text, merge

CORPORA: Sequence[Corpus] = (
    permissions,
    read_only_commands,
    sandbox,
    shell_fuzzer,
    secrets,
    web_hosts,
    hostile_folders,
    hostile_servers,
    http_server,
    damaged_stores,
    faults,
)
"""Every corpus; tests/test_attacks.py runs a sample of each."""


def main() -> int:
    """Run the corpora one after the other, so that none disturbs another."""
    known = {corpus.NAME: corpus for corpus in CORPORA}
    parser = argparse.ArgumentParser(prog="python -m attacks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(known)}")
    parser.add_argument("--sample", type=int, metavar="N", help="about N attacks of each corpus")
    parser.add_argument("--results", type=Path, metavar="FILE", help="add this run to a file")
    parser.add_argument("--write", action="store_true", help="write the table to docs/safety.md")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - known.keys()):
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(known)}")
    if arguments.write and (arguments.sample or (arguments.names and not arguments.results)):
        parser.error("--write needs a run of all corpora, or --results")
    wanted = [known[name] for name in arguments.names] or CORPORA
    results = anyio.run(_run_all, wanted, arguments.sample)
    if arguments.results:
        results = add_results(arguments.results, results, list(known))
    print(format_text(results))
    if arguments.write and (missing := known.keys() - {result.name for result in results}):
        parser.error(f"--write needs results of {', '.join(sorted(missing))}")
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(merge(page, format_markdown(results)), encoding="utf-8")
    return 1 if any(result.select(Status.FAILED) for result in results) else 0


async def _run_all(corpora: Sequence[Corpus], sample: int | None) -> list[CorpusResult]:
    results = []
    for corpus in corpora:
        report = partial(_report, corpus.NAME)
        results.append(await carry_out(corpus, sample, report=report))
    return results


def _report(corpus: str, outcome: Outcome) -> None:
    if outcome.status is Status.FAILED:
        print(f"failed: {corpus}: {outcome.case}: {outcome.detail}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
