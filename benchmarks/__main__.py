"""Runs every benchmark in order; each writes its own section of the results."""

from collections.abc import Callable

from benchmarks import context, estimator, overhead, persistence, startup, strategies

BENCHMARKS: tuple[Callable[[], None], ...] = (
    startup.main,
    overhead.main,
    estimator.main,
    context.main,
    strategies.main,
    persistence.main,
)


def main() -> None:
    """Run all benchmarks, one after the other so that none disturbs another."""
    for benchmark in BENCHMARKS:
        benchmark()


if __name__ == "__main__":
    main()
