"""The server through HTTP on loopback."""

from pathlib import Path

import anyio
import pytest

from clew.testing.fake_openai import text_response
from tests.server.places import serving

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-1")]


async def test_a_prompt_is_answered_and_its_events_follow(tmp_path: Path) -> None:
    async with serving(tmp_path, text_response("Hello", " there")) as api:
        assert (await api.call("GET", "/health"))["status"] == "ok"
        session = await api.open(name="first")
        seq = (await api.call("GET", f"/sessions/{session}"))["seq"]
        accepted = await api.call(
            "POST", f"/sessions/{session}/prompts", {"text": "Hi"}, status=202
        )

        with anyio.fail_after(60):
            async with api.follow(f"/sessions/{session}/events", after=seq) as events:
                names = []
                async for event in events:
                    names.append(event.name)
                    if event.name == "complete":
                        break

        assert event.data["event"]["result"]["run_id"] == accepted["run_id"]
        assert "text_delta" in names
        listed = await api.call("GET", "/sessions")
        assert [one["name"] for one in listed["sessions"]] == ["first"]
