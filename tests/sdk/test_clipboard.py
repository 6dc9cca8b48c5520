"""An image from the clipboard, by whichever program the system has."""

import base64
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from clew.core.messages import Image
from clew.sdk.clipboard import NoImage, read_clipboard_image, save_clipboard_image
from clew.tools.builtin.read import MAX_IMAGE_BYTES

pytestmark = [pytest.mark.anyio, pytest.mark.req("TUI-3")]

PNG = b"\x89PNG\r\n\x1a\nrest"


def program(folder: Path, name: str, output: bytes, *, code: int = 0) -> None:
    (folder / f"{name}.out").write_bytes(output)
    file = folder / name
    file.write_text(f"#!/bin/sh\ncat '{folder}/{name}.out'\nexit {code}\n")
    file.chmod(0o755)


def environ(folder: Path, **variables: str) -> dict[str, str]:
    return {"PATH": f"{folder}:/usr/bin:/bin", **variables}


@pytest.mark.parametrize(
    ("name", "output", "variables", "platform"),
    [
        ("wl-paste", PNG, {"WAYLAND_DISPLAY": "w"}, "linux"),
        ("xclip", PNG, {"DISPLAY": ":0"}, "linux"),
        ("powershell.exe", base64.b64encode(PNG), {"WSL_DISTRO_NAME": "u"}, "linux"),
        ("powershell", base64.b64encode(PNG) + b"\r\n", {}, "win32"),
        ("pngpaste", PNG, {}, "darwin"),
        ("osascript", f"«data PNGf{PNG.hex().upper()}»".encode(), {}, "darwin"),
    ],
)
async def test_each_system_has_its_programs(
    tmp_path: Path, *, name: str, output: bytes, variables: dict[str, str], platform: str
) -> None:
    program(tmp_path, name, output)

    with anyio.fail_after(60):
        found = await read_clipboard_image(environ(tmp_path, **variables), platform=platform)

    assert found == Image(media_type="image/png", data=PNG)


@pytest.mark.parametrize(
    ("output", "code", "reason"),
    [
        (b"only text", 0, "no_image"),
        (PNG, 1, "no_image"),
        (b"", 0, "no_image"),
        (PNG + b"x" * MAX_IMAGE_BYTES, 0, "too_large"),
    ],
)
async def test_what_is_no_image_has_a_reason(
    tmp_path: Path, output: bytes, code: int, reason: str
) -> None:
    program(tmp_path, "wl-paste", output, code=code)

    with anyio.fail_after(60):
        found = await read_clipboard_image(environ(tmp_path, WAYLAND_DISPLAY="w"), platform="linux")

    assert isinstance(found, NoImage)
    assert found.reason == reason


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
async def test_a_missing_program_is_named(tmp_path: Path, platform: str) -> None:
    found = await read_clipboard_image({"PATH": str(tmp_path)}, platform=platform)

    assert isinstance(found, NoImage)
    assert found.reason == "no_program"


async def test_odd_output_is_no_image(tmp_path: Path) -> None:
    program(tmp_path, "powershell", b"\xff not base64 =")
    program(tmp_path, "pngpaste", b"", code=1)
    program(tmp_path, "osascript", b"execution error")

    for platform in ("win32", "darwin"):
        found = await read_clipboard_image(environ(tmp_path), platform=platform)
        assert isinstance(found, NoImage)


@pytest.mark.skipif(sys.platform != "linux", reason="each system has other programs")
async def test_a_saved_image_belongs_to_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "wl-paste", PNG)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("WAYLAND_DISPLAY", "w")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with anyio.fail_after(60):
        path = await save_clipboard_image()

    assert isinstance(path, str)
    assert path.endswith(".png")
    assert Path(path).read_bytes() == PNG
    assert Path(path).stat().st_mode & 0o777 == 0o600
