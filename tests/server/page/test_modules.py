"""The pure modules of the page, in the browser that runs them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from clew.core.events import EVENT_TYPES
from tests.server.page.conftest import Start

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser")]

MARKDOWN = """\
# Title with `code`

A paragraph with **bold**, *italic*, ***both***, ~~gone~~ and snake_case_words,
its second line\x20\x20
after a break, https://example.org/a_b. and <https://example.org>.

- one
  - nested
    continued
- two

  a paragraph in it
- [x] done
- [ ] open

3. three
4. four

> quoted
> > deeper

| a | b |
|:--|--:|
| 1 \\| 2 | `x` |

```python
def f():
    return "**not bold**"
```

    indented

***
<b onclick="x()">html</b> [bad](javascript:alert(1)) [good](https://example.org "title")
"""

_CALL = """async ([module, name, args]) => {
  const base = document.querySelector('script[type=module]').src.replace('main.js', '');
  const value = (await import(base + module))[name];
  return typeof value === 'function' ? value(...args) : value;
}"""


@pytest.fixture(scope="module")
def page(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Page]":
    """A page whose modules can be called."""
    with ExitStack() as stack:
        yield Start(browser, tmp_path_factory.mktemp("page"), stack)().open()


def _call(page: "Page", module: str, name: str, *args: Any) -> Any:
    return page.evaluate(_CALL, [module, name, list(args)])


def test_markdown_becomes_a_tree_in_which_html_is_text(page: "Page") -> None:
    tree = _call(page, "markdown.js", "parseMarkdown", MARKDOWN)
    kinds = "heading paragraph list list quote table code code rule paragraph"
    assert [block["type"] for block in tree] == kinds.split()
    heading, paragraph, bullets, numbers, quote, table, code, _, _, last = tree
    assert heading["children"][1] == {"type": "code", "text": "code"}
    inline = "text strong text em text strong text strike text break text link text link text"
    assert " ".join(one["type"] for one in paragraph["children"]) == inline
    assert "snake_case_words" in json.dumps(paragraph)
    assert paragraph["children"][11]["href"] == "https://example.org/a_b"
    assert [item["checked"] for item in bullets["items"]] == [None, None, True, False]
    assert [block["type"] for block in bullets["items"][1]["children"]] == ["paragraph"] * 2
    assert bullets["items"][0]["children"][1]["items"][0]["children"][0]["type"] == "paragraph"
    assert (numbers["ordered"], numbers["start"]) == (True, 3)
    assert [block["type"] for block in quote["children"]] == ["paragraph", "quote"]
    assert table["align"] == ["", "right"]
    assert table["rows"][0][0] == [{"type": "text", "text": "1 | 2"}]
    assert code == {
        "type": "code",
        "language": "python",
        "text": 'def f():\n    return "**not bold**"',
    }
    assert last["children"][0]["text"].startswith('<b onclick="x()">html</b> bad')
    assert [one["href"] for one in last["children"] if one["type"] == "link"] == [
        "https://example.org"
    ]


def test_blocks_of_an_answer_that_arrives_stay_the_same(page: "Page") -> None:
    drawn = page.evaluate(
        """async (text) => {
          const base = document.querySelector('script[type=module]').src.replace('main.js', '');
          const { splitBlocks, parseMarkdown } = await import(base + 'markdown.js');
          let before = [], changed = 0;
          for (let end = 1; end <= text.length; end += 1) {
            const pieces = splitBlocks(text.slice(0, end));
            parseMarkdown(text.slice(0, end));
            if (pieces.join('\\n') !== text.slice(0, end)) throw new Error(`lost at ${end}`);
            const common = Math.min(before.length, pieces.length) - 2;
            for (let at = 0; at < common; at += 1) if (pieces[at] !== before[at]) changed += 1;
            before = pieces;
          }
          const whole = splitBlocks(text).flatMap(parseMarkdown);
          return { changed, whole: whole.map((one) => one.type) };
        }""",
        MARKDOWN,
    )
    assert drawn["changed"] == 0
    assert drawn["whole"] == [
        block["type"] for block in _call(page, "markdown.js", "parseMarkdown", MARKDOWN)
    ]


def test_only_usual_addresses_become_links(page: "Page") -> None:
    for address in ("https://example.org/a?b=c", "http://localhost:1", "mailto:a@example.org"):
        assert _call(page, "markdown_inline.js", "safeAddress", address) == address
    for address in (
        "javascript:alert(1)",
        "java\nscript:alert(1)",
        " \x01javascript:alert(1)",
        "data:text/html,x",
        "//example.org",
        "file:///etc/passwd",
    ):
        assert _call(page, "markdown_inline.js", "safeAddress", address) == ""


def test_every_event_has_a_place_in_the_transcript(page: "Page") -> None:
    handled = set(_call(page, "transcript.js", "HANDLED_EVENTS"))
    elsewhere = {
        "background_job_group_event",
        "background_task_event",
        "context_update",
        "session_update",
    }
    assert handled | elsewhere == set(EVENT_TYPES)


def test_a_stream_cut_anywhere_has_the_same_messages(page: "Page") -> None:
    same = page.evaluate(
        """async () => {
          const base = document.querySelector('script[type=module]').src.replace('main.js', '');
          const { makeParser } = await import(base + 'events.js');
          const text = ': alive\\n\\nid: 7\\nevent: text_delta\\ndata: {"seq": 7}\\n\\n'
            + 'id: 8\\r\\ndata: a\\r\\ndata: b\\r\\n\\r\\n';
          const whole = JSON.stringify(makeParser()(text));
          for (let cut = 0; cut <= text.length; cut += 1) {
            const parse = makeParser();
            const found = [...parse(text.slice(0, cut)), ...parse(text.slice(cut))];
            if (JSON.stringify(found) !== whole) return cut;
          }
          return whole;
        }"""
    )
    assert json.loads(same) == [
        {"id": "7", "event": "text_delta", "data": '{"seq": 7}'},
        {"id": "8", "event": "message", "data": "a\nb"},
    ]


def test_ten_thousand_calls_are_drawn_in_columns_that_keep_every_peak(page: "Page") -> None:
    drawn = page.evaluate(
        """async () => {
          const base = document.querySelector('script[type=module]').src.replace('main.js', '');
          const { makeColumns } = await import(base + 'timeline.js');
          const tokens = (at) => (at === 7777 ? 999999 : at);
          const points = Array.from({ length: 10000 }, (_, at) => ({ tokens: tokens(at) }));
          const { columns } = makeColumns(points, 900);
          return {
            columns: columns.length,
            calls: columns.reduce((sum, one) => sum + one.count, 0),
            peak: Math.max(...columns.map((one) => one.point.tokens)),
          };
        }"""
    )
    assert drawn == {"columns": 450, "calls": 10_000, "peak": 999_999}
    assert _call(page, "timeline.js", "makeTicks", 128_000, 4) == [0, 50_000, 100_000]


def test_an_undo_that_was_undone_reverts_nothing(page: "Page") -> None:
    marks = [
        {"entry_id": 5, "kind": "compaction"},
        {"entry_id": 6, "kind": "undo", "target": 5},
        {"entry_id": 7, "kind": "undo", "target": 6},
        {"entry_id": 8, "kind": "compaction"},
        {"entry_id": 9, "kind": "undo", "target": 8},
    ]
    undone = page.evaluate(
        """async (marks) => {
          const base = document.querySelector('script[type=module]').src.replace('main.js', '');
          return [...(await import(base + 'timeline.js')).undoneMarks(marks)];
        }""",
        marks,
    )
    assert sorted(undone) == [6, 8]
