"""The reference in `docs/reference` says what the docstrings say."""

from collections.abc import Iterator
from importlib import import_module

import clew
from scripts.reference.__main__ import FOLDER
from scripts.reference.docstrings import public_names, read_module
from scripts.reference.markdown import markdown, pages
from scripts.reference.pages import PAGES

MODULES = sorted({spec.partition(":")[0] for page in PAGES for spec in page.modules})


def test_the_committed_pages_match_the_docstrings() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}

    written = pages()

    stale = [name for name in written if committed.get(name) != written[name]]
    assert stale == [], "run: .venv/bin/python -m scripts.reference"
    assert sorted(committed) == sorted(written)


def test_everything_in_the_reference_can_be_imported_and_has_a_docstring() -> None:
    problems = [problem for name in MODULES for problem in undescribed(name)]

    assert problems == []


def undescribed(name: str) -> Iterator[str]:
    """Yield what the reference of a module lacks."""
    module, described = import_module(name), read_module(name)
    if not described.doc or not described.things:
        yield f"{name}: no docstring, or nothing public"
    for thing in described.things:
        if not hasattr(module, thing.name):
            yield f"{name}.{thing.name}: not importable"
        if thing.code.startswith(("class", "def", "async")):
            if not thing.doc:
                yield f"{name}.{thing.name}: no docstring"
            yield from (
                f"{name}.{thing.name}.{member.name}: no docstring"
                for member in thing.members
                if not member.doc
            )


def test_every_public_name_is_in_the_reference() -> None:
    assert set(clew.__all__) - {"__version__"} <= set(public_names())


def test_a_docstring_becomes_markdown() -> None:
    doc = (
        "Do it.\n\nWith <care>, not `<tags>`.\n\nArgs:\n    one: First,\n        and more.\n"
        "    two: Second.\n\nReturns:\n    What came of it.\n\nRaises:\n    OSError: It broke."
    )

    assert markdown(doc) == (
        "Do it.\n\nWith &lt;care>, not `<tags>`.\n\n**Args**\n\n- `one`: First,\n  and more.\n"
        "- `two`: Second.\n\n**Returns**\n\nWhat came of it.\n\n**Raises**\n\n"
        "- `OSError`: It broke."
    )
