"""Answers of models: one with every kind of Markdown block, and random ones."""

from hypothesis import strategies as st

ANSWER = """\
I'll look at **the** `file` first, then at [the docs](https://example.com/x).

| Name | What it does | 数量 |
|:-----|--------------|----:|
| `a`  | a long description of the thing, which has to be wrapped somewhere | 1 |
| b    | 日本語のとても長い説明文がここにあります | 22 |

- one
- two words that go on and on and on and on and on and on until the line is full
  - nested 👩‍👩‍👧 family
  - `code`

    ```python
    x = 1
    ```

1. first

2. second

```python
def f(x: int) -> int:
\treturn x + 1  # a comment that is longer than the line of a small terminal
```

# Heading
Text right below it

Title
-----

> quote
> of two lines

---

~~gone~~ *it is* ***both***, <b>html</b>, [red]no markup[/red] and ![image](http://x/y.png)

    indented code

The end: `emoji` ❤️ 👍🏽 and 漢字
"""

_PIECES = st.sampled_from(
    [
        *("word", "two words", " ", "  ", "\n", "\n\n", "\n\n\n", "\t", "    ", "\r", "\r\n"),
        *("# ", "## t\n", "- ", "* ", "+ ", "1. ", "2) ", "> ", "---\n", "===\n", "***\n"),
        *("```", "```py\n", "~~~\n", "`", "``", "|", "|a|b|\n", "|-|-|\n", "| x | y |\n"),
        *("**", "*", "_", "~~", "[", "](", ")", "![", "<b>", "&amp;", "\\", "[x]: http://y\n"),
        *("漢字", "日本語の文章", "👩‍👩‍👧", "❤️", "é", "e\u0301", "\u200b", "[red]", ":smile:"),
        *("\x1b[2J", "\x1b]0;t\x07", "\x9b", "\u202e", "\ud800", "\x00", "https://example.com/a?b"),
    ]
)


def answers() -> st.SearchStrategy[str]:
    """Return texts of Markdown marks, words, wide characters and control sequences."""
    return st.lists(_PIECES, max_size=40).map("".join)


def cut(text: str, data: st.DataObject) -> list[str]:
    """Cut a text into pieces at random places."""
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
