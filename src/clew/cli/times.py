"""Times as people read them."""

import time


def when(at: float) -> str:
    """Return a time as people here write it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
