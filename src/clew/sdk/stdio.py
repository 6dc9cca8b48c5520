"""Lines on standard input and output, without threads and without blocking the event loop."""

import os
import select
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import anyio
import anyio.lowlevel

MAX_LINE = 64_000_000
"""The most bytes of a message; images and embedded files are part of it."""
_PIECE = 65_536

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Writes whole lines; raises `OSError` when the reader has closed them."""


async def split_lines(
    pieces: AsyncIterator[bytes], *, limit: int = MAX_LINE
) -> AsyncIterator[bytes | None]:
    """Yield the lines of a stream, without the empty ones; None for one that is too long."""
    parts: list[bytes] = []
    size = 0
    async for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            parts.append(end)
            size += len(end)
            if size > limit:
                yield None
            elif line := b"".join(parts).strip():
                yield line
            parts, size = [], 0
        size += len(rest)
        parts = [*parts, rest] if size <= limit else []
    if size > limit:
        yield None
    elif line := b"".join(parts).strip():
        yield line


async def read_pieces(number: int) -> AsyncIterator[bytes]:
    """Yield what arrives on a file descriptor, until it ends."""
    waits = not stat.S_ISREG(os.fstat(number).st_mode)
    while True:
        if waits:
            try:
                await anyio.wait_readable(number)
            except PermissionError:
                # The null device is always ready and cannot be waited for.
                waits = False
        else:
            await anyio.lowlevel.checkpoint()
        piece = os.read(number, _PIECE)
        if not piece:
            return
        yield piece


def write_to(number: int) -> Write:
    """Return a function that writes to a file descriptor and waits for a slow reader."""
    waits = not stat.S_ISREG(os.fstat(number).st_mode)

    async def write(data: bytes) -> None:
        nonlocal waits
        rest = memoryview(data)
        while rest:
            if waits:
                try:
                    await anyio.wait_writable(number)
                except PermissionError:
                    waits = False
            # A pipe that is ready takes this much without blocking.
            rest = rest[os.write(number, rest[: select.PIPE_BUF]) :]

    return write
