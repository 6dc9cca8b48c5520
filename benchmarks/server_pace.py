"""How a measured server is told to send events: a line on its standard input.

Both programs use this, so that events are made at the same moments and have the same text.
"""

import asyncio
import sys
import time
from collections.abc import Callable

TEXT = "The gateway answers slowly when the cache is cold. "
"""The text of each event: about as much as a model sends at once."""
RATE_LIMITLESS = 1_000_000


async def obey(publish: Callable[[str], object]) -> None:
    """Publish events as the lines say, `RATE COUNT` each, until the input is closed."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        rate, count = map(int, line.split())
        await _publish_all(publish, rate, count)


async def _publish_all(publish: Callable[[str], object], rate: int, count: int) -> None:
    """Publish each event when it is due; those that are late follow at once."""
    start = time.monotonic()
    for number in range(count):
        if (early := start + number / rate - time.monotonic()) > 0:
            await asyncio.sleep(early)
        publish(TEXT)
