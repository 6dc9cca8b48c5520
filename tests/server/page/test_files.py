"""The files of the page: what is shipped, and how it is served."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

from tests.server.places import serving

pytestmark = [pytest.mark.anyio, pytest.mark.req("WEB-1")]

PAGE = Path(str(files("clew.server") / "page"))


def test_the_vendored_file_is_the_one_that_its_readme_names() -> None:
    digest = hashlib.sha256((PAGE / "vendor/htm-preact.js").read_bytes()).hexdigest()
    assert f"`{digest}`" in (PAGE / "vendor/README.md").read_text()


def test_every_own_file_is_short_and_creates_no_markup_from_text() -> None:
    for path in PAGE.rglob("*.js"):
        if path.parent.name == "vendor":
            continue
        text = path.read_text()
        assert text.count("\n") <= 400, path
        for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write"):
            assert unsafe not in text, (path, unsafe)


def test_nothing_is_loaded_from_another_place() -> None:
    for path in [*PAGE.rglob("*.js"), *PAGE.rglob("*.css"), PAGE / "index.html"]:
        if path.parent.name == "vendor":
            continue
        for found in re.findall(
            r"(?:from|src=|href=|url\()\s*[\"']?(https?:)?//", path.read_text()
        ):
            pytest.fail(f"{path} loads from elsewhere: {found}")


async def test_each_file_is_served_once_per_release(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        async with api.http.get(api.server.url) as index:
            html = await index.text()
            assert index.content_type == "text/html"
            assert index.headers["Cache-Control"] == "no-cache"
            etag = index.headers["ETag"]
        addresses = re.findall(r'(?:href|src)="([^"]+)"', html)
        assert len(addresses) > 30
        kinds = {}
        for address in addresses:
            async with api.http.get(api.server.url + address) as answer:
                assert answer.status == 200, address
                assert "immutable" in answer.headers["Cache-Control"]
                kinds[Path(address).suffix] = answer.content_type
        assert kinds == {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
        async with api.http.get(api.server.url, headers={"If-None-Match": etag}) as again:
            assert again.status == 304
        for wrong in ("/page/0123/main.js", addresses[0].replace("icon.svg", "../../app.py")):
            async with api.http.get(api.server.url + wrong) as answer:
                assert answer.status == 404
