"""Reads an image from the clipboard, with the programs that the system has for it."""

import base64
import binascii
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from subprocess import DEVNULL
from typing import Literal

import anyio
import anyio.to_thread
from anyio import CancelScope
from msgspec import Struct

from clew.core.messages import Image
from clew.tools.builtin.read import MAX_IMAGE_BYTES, find_image_type

_MAX_OUTPUT = 64_000_000
_SECONDS = 10.0
_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$i=[Windows.Forms.Clipboard]::GetImage();"
    "if($i){$m=New-Object IO.MemoryStream;$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($m.ToArray())}"
)
_HEX = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb")
"""How AppleScript prints an image."""


class NoImage(Struct, frozen=True):
    """Why there is no image."""

    reason: Literal["no_program", "no_image", "too_large"]
    text: str
    """A sentence for the user."""


class _Reader(Struct, frozen=True):
    """A program that prints the image of the clipboard."""

    command: Sequence[str]
    decoding: Literal["plain", "base64", "applescript"] = "plain"


async def read_clipboard_image(
    environ: Mapping[str, str] | None = None, *, platform: str = sys.platform
) -> Image | NoImage:
    """Return the image on the clipboard, or why there is none. Never raises.

    Args:
        environ: Environment variables; by default those of the process.
        platform: The system, as `sys.platform` names it.
    """
    environ = os.environ if environ is None else environ
    path = environ.get("PATH", "")
    readers = [
        reader
        for reader in _list_readers(environ, platform)
        if shutil.which(reader.command[0], path=path)
    ]
    if not readers:
        return NoImage("no_program", _explain_missing(platform))
    for reader in readers:
        data = _decode(await _run(reader.command, environ), reader)
        if kind := find_image_type(data):
            if len(data) > MAX_IMAGE_BYTES:
                return NoImage(
                    "too_large",
                    f"the image on the clipboard has {len(data):,} bytes; models accept at most"
                    f" {MAX_IMAGE_BYTES:,}",
                )
            return Image(media_type=kind, data=data)
    return NoImage("no_image", "there is no image on the clipboard")


async def save_clipboard_image() -> str | NoImage:
    """Save the image on the clipboard in a temporary file; returns its path, or why there is none.

    Only the user can read the file. A prompt that names the path attaches the image.
    """
    image = await read_clipboard_image()
    if isinstance(image, NoImage):
        return image
    suffix = f".{image.media_type.partition('/')[2]}"
    return await anyio.to_thread.run_sync(_save, image.data, suffix)


def _save(data: bytes, suffix: str) -> str:
    handle, path = tempfile.mkstemp(prefix="clew-pasted-", suffix=suffix)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return path


def _list_readers(environ: Mapping[str, str], platform: str) -> list[_Reader]:
    powershell = ("-NoProfile", "-NonInteractive", "-STA", "-Command", _POWERSHELL)
    if platform == "darwin":
        script = ("osascript", "-e", "get the clipboard as «class PNGf»")
        return [_Reader(("pngpaste", "-")), _Reader(script, "applescript")]
    if platform == "win32":
        return [_Reader((name, *powershell), "base64") for name in ("powershell", "pwsh")]
    found: list[_Reader] = []
    if environ.get("WAYLAND_DISPLAY"):
        found.append(_Reader(("wl-paste", "--no-newline", "--type", "image/png")))
    if environ.get("DISPLAY"):
        found.append(_Reader(("xclip", "-selection", "clipboard", "-t", "image/png", "-o")))
    if environ.get("WSL_DISTRO_NAME"):
        found.append(_Reader(("powershell.exe", *powershell), "base64"))
    return found


def _explain_missing(platform: str) -> str:
    names = {
        "darwin": "install pngpaste (brew install pngpaste)",
        "win32": "PowerShell is missing",
    }
    advice = names.get(platform, "install wl-clipboard (Wayland) or xclip (X11)")
    return f"images cannot be read from the clipboard here: {advice}, or name the file with an @"


def _decode(data: bytes, reader: _Reader) -> bytes:
    try:
        match reader.decoding:
            case "base64":
                return base64.b64decode(data.strip())
            case "applescript":
                found = _HEX.search(data)
                return bytes.fromhex(found[1].decode()) if found else b""
            case "plain":
                return data
    except (binascii.Error, ValueError):
        return b""


async def _run(command: Sequence[str], environ: Mapping[str, str]) -> bytes:
    """Return what a program prints; nothing if it fails or takes too long."""
    try:
        with CancelScope(shield=True):
            process = await anyio.open_process(
                list(command), stdin=DEVNULL, stderr=DEVNULL, env=dict(environ)
            )
    except OSError:
        return b""
    data = bytearray()
    async with process:
        with anyio.move_on_after(_SECONDS):
            assert process.stdout is not None  # noqa: S101 - a pipe by default
            async for piece in process.stdout:
                data += piece
                if len(data) > _MAX_OUTPUT:
                    break
            else:
                return bytes(data) if await process.wait() == 0 else b""
        process.kill()
    return b""
