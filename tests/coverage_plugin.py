"""A pytest plugin that measures branch coverage, in this process or in the workers of xdist.

Load it with `-p tests.coverage_plugin`, then run `coverage combine` and `coverage report`.
Tracing doubles the time that a test takes. The plugin therefore traces the tests in `MEASURED`,
which cover the pure packages on their own, and only the first examples of a property; everything
else runs at full speed. Examples are the same in every run, and so is what is traced.

A module, and a function that remembers its answer, run only once per process, perhaps in a test
that is not traced. The plugin therefore imports all modules itself, and empties the caches before
the first traced test.
"""

import pkgutil
import sys
from collections.abc import Generator
from functools import cache, wraps
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage

MEASURED = frozenset({"context", "core", "requirements_shown"})
"""The folders of tests that are traced."""

TRACED_EXAMPLES = 20
"""How many examples of a property are traced."""

PACKAGES = ("clew.context", "clew.core")


def _import_traced() -> Coverage:
    """Import all modules of the packages while tracing, before anything else imports them."""
    coverage = Coverage(data_suffix=True)
    coverage.start()
    for package in PACKAGES:
        found = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
        for module in list(found):
            import_module(module.name)
    coverage.stop()
    return coverage


_coverage = _import_traced()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace a test if it is one of the measured ones."""
    if not _is_measured(item):
        return (yield)
    _empty_caches()
    _trace_first_examples(item)
    _coverage.start()
    try:
        return (yield)
    finally:
        _coverage.stop()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down what was traced, except in the process that only hands out tests."""
    _coverage.stop()
    if not session.config.pluginmanager.hasplugin("dsession"):
        _coverage.save()


@cache
def _empty_caches() -> None:
    """Make functions that remember their answer compute it again; done once per process."""
    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGES):
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


def _trace_first_examples(item: pytest.Item) -> None:
    """Stop tracing after some examples if the test is a property."""
    hypothesis = getattr(getattr(item, "obj", None), "hypothesis", None)
    if hypothesis is None:
        return
    check, examples = hypothesis.inner_test, count(1)

    @wraps(check)
    def check_example(*arguments: Any, **named: Any) -> Any:
        if next(examples) > TRACED_EXAMPLES:
            _coverage.stop()
        return check(*arguments, **named)

    hypothesis.inner_test = check_example


def _is_measured(item: pytest.Item) -> bool:
    tests = Path(__file__).parent
    return item.get_closest_marker("slow") is None and not MEASURED.isdisjoint(
        item.path.relative_to(tests).parts[:1]
    )
