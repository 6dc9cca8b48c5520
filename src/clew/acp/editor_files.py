"""The files of the editor, with unsaved changes, for the file tools of a session.

Tools run in worker threads; requests to the editor run in the event loop.
"""

import logging
from pathlib import Path

import anyio
from anyio import from_thread

from clew.acp.connection import Connection, RpcError
from clew.acp.messages import Empty, FileSystem, ReadFileParams, ReadFileResult, WriteFileParams

logger = logging.getLogger(__name__)

_TIMEOUT = 10.0
"""Seconds to wait for the editor: a tool call must end even if the editor hangs."""


class EditorFiles:
    """Reads and writes text files through the editor, as far as it offers that.

    Args:
        connection: The editor.
        offered: What the editor offers.
    """

    def __init__(self, connection: Connection, offered: FileSystem) -> None:
        self._connection = connection
        self._offered = offered
        self.session_id = ""
        """The session that the files are for; empty until it is open."""

    def read(self, path: Path) -> str | None:
        """Return the text that the editor has; None if it has none, so that the disk is read."""
        if not self._offered.read_text_file or not self.session_id:
            return None
        return from_thread.run(self._read, str(path))

    def write(self, path: Path, text: str) -> bool:
        """Let the editor write a file; returns False if it does not offer that.

        Raises:
            OSError: The editor cannot write it.
        """
        if not self._offered.write_text_file or not self.session_id:
            return False
        from_thread.run(self._write, str(path), text)
        return True

    async def _read(self, path: str) -> str | None:
        params = ReadFileParams(session_id=self.session_id, path=path)
        try:
            with anyio.fail_after(_TIMEOUT):
                found = await self._connection.request("fs/read_text_file", params, ReadFileResult)
        except (RpcError, TimeoutError) as error:
            logger.info("the editor does not have %s: %s", path, error)
            return None
        return found.content

    async def _write(self, path: str, text: str) -> None:
        params = WriteFileParams(session_id=self.session_id, path=path, content=text)
        try:
            with anyio.fail_after(_TIMEOUT):
                await self._connection.request("fs/write_text_file", params, Empty)
        except TimeoutError as error:
            raise OSError("the editor does not answer") from error
        except RpcError as error:
            raise OSError(f"the editor refuses: {error}") from error
