"""Shortening a long text to its head and tail, with a marker that says what is missing."""

_HEAD_SHARE = 0.7


def excerpt(text: str, limit: int, *, where: str = "") -> str:
    """Return `text` if it has at most `limit` characters, else its head and tail.

    The result never exceeds `limit`. `where` tells the reader how to get the rest.
    """
    if len(text) <= limit:
        return text
    marker = f"\n[… {len(text):,} characters in all, the middle is left out{where} …]\n"
    room = limit - len(marker)
    if room < 2:
        return text[:limit]
    head = round(room * _HEAD_SHARE)
    return text[:head] + marker + text[len(text) - (room - head) :]
