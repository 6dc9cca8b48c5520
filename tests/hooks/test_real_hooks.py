"""Hooks files that people wrote for Claude Code, unchanged."""

import json
import os
import shutil
import sys
import tarfile
from pathlib import Path

import anyio
import pytest

from clew.core.permissions import Verdict
from clew.hooks.context import HookContext
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.hooks.runner import HookRunner
from clew.hooks.settings import TOOL_EVENTS, Hook, HookSource, HookTable, read_hooks
from tests.extensions.archive import extract

DATA = Path(__file__).parents[3] / "shared" / "data" / "plugins_skills.tar.gz"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("HOK-2"),
    pytest.mark.skipif(not DATA.exists(), reason="the recordings are not here"),
]

NEEDS_NETWORK = "ensure_agent_sdk.py"
CALLS = {
    "Bash": {"command": "rm -rf build && git commit -m x"},
    "Edit": {"file_path": "/w/a.js", "old_string": "a", "new_string": "eval(input)"},
}


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins")
    with tarfile.open(DATA) as archive:
        extract(archive, folder)
    for script in folder.rglob("*.sh"):
        script.chmod(0o755)
    return folder / "plugins_skills"


def tables(plugins: Path) -> list[tuple[Path, HookTable]]:
    """Read every hooks file and every settings file; say which folder each is for."""
    found = []
    for file in sorted({*plugins.rglob("hooks/*.json"), *plugins.rglob(".claude/settings*.json")}):
        root, name = file.parent.parent, str(file.relative_to(plugins))
        if file.parent.name == "hooks":
            source = HookSource(name=name, plugin_root=root)
        else:
            source = HookSource(name=name, project=True)
        found.append((root, read_hooks(file.read_bytes(), source)))
    return found


def means_for(home: Path) -> HookContext:
    """A machine of their own: another home, no keys, and no way to the network."""
    dead = "http://127.0.0.1:1"
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), dead)
    return HookContext(project=home, environ={**kept, **proxies, "PATH": path, "HOME": str(home)})


async def run(hook: Hook, home: Path, folder: Path, tool: str = "Bash") -> HookVerdict:
    told = HookInput(
        session_id="s-1",
        cwd=str(folder),
        transcript_path=str(home / "transcript.jsonl"),
        source="startup",
        prompt="hello",
        tool_name=tool,
        tool_input=CALLS[tool],
        tool_response={"stdout": ""},
        stop_hook_active=False,
    )
    with anyio.fail_after(60):
        return await HookRunner(HookTable((hook,)), means_for(home)).fire(hook.event, told)


def test_every_file_is_read_and_unknown_parts_are_reported(plugins: Path) -> None:
    found = [table for _, table in tables(plugins)]
    hooks = [hook for table in found for hook in table.hooks]
    problems = [problem for table in found for problem in table.problems]

    assert len(found) >= 9
    assert len(hooks) >= 16
    assert {hook.event for hook in hooks} == {
        HookEvent.SESSION_START,
        HookEvent.PRE_TOOL_USE,
        HookEvent.POST_TOOL_USE,
        HookEvent.USER_PROMPT_SUBMIT,
        HookEvent.STOP,
    }
    assert sorted(problem.partition(": ")[2] for problem in problems) == [
        "unknown event UserPromptExpansion; ignored",
        "unknown event sessionStart; ignored",
    ]


@pytest.mark.timeout(300)
async def test_every_hook_that_needs_no_network_runs(plugins: Path, tmp_path: Path) -> None:
    # The mark by which one plugin knows that it has begun to install something.
    mark = tmp_path / ".claude" / "security" / ".sdk_bootstrap_spawned"
    mark.parent.mkdir(parents=True)
    mark.touch()
    ran = 0
    texts: list[str] = []
    reports: set[str] = set()
    for root, table in tables(plugins):
        for hook in table.hooks:
            if NEEDS_NETWORK in str(hook.handler):
                continue
            ran += 1
            for tool in CALLS if hook.event in TOOL_EVENTS else ["Bash"]:
                said = await run(
                    hook, tmp_path, tmp_path if hook.source.plugin_root else root, tool
                )
                texts += said.context
                reports.update(said.reports)

    assert ran >= 17
    assert {text.partition("\n")[0][:30] for text in texts} >= {
        "You are in 'explanatory' outpu",
        "You are in 'learning' output s",
        "[from security-guidance@claude",
    }
    # One script is not in the archive.
    assert ["failed with exit code 127" in report for report in reports] == [True]


def only(plugins: Path, plugin: str, event: HookEvent) -> Hook:
    (hook,) = (
        hook
        for root, table in tables(plugins)
        for hook in table.hooks
        if root.name == plugin and hook.event is event
    )
    return hook


@pytest.mark.req("HOK-3")
async def test_a_rule_of_hookify_denies_a_call(plugins: Path, tmp_path: Path) -> None:
    example = next(plugins.rglob("hookify/examples/dangerous-rm.local.md"))
    (tmp_path / ".claude").mkdir()
    shutil.copy(example, tmp_path / ".claude" / "hookify.rm.local.md")
    hook = only(plugins, "hookify", HookEvent.PRE_TOOL_USE)

    said = await run(hook, tmp_path, tmp_path, "Bash")

    assert said.decision is not None
    assert said.decision.verdict is Verdict.DENY
    assert "Dangerous rm command detected" in said.messages[0]
    assert await run(hook, tmp_path, tmp_path, "Edit") == HookVerdict()


@pytest.mark.req("HOK-3")
@pytest.mark.skipif(shutil.which("jq") is None, reason="the hook needs jq")
async def test_a_ralph_loop_keeps_a_run_going(plugins: Path, tmp_path: Path) -> None:
    words = {"type": "assistant", "message": {"role": "assistant", "content": []}}
    (tmp_path / "transcript.jsonl").write_text(json.dumps(words, separators=(",", ":")) + "\n")
    (tmp_path / ".claude").mkdir()
    state = "---\niteration: 1\nmax_iterations: 5\ncompletion_promise: null\n---\nGo on.\n"
    (tmp_path / ".claude" / "ralph-loop.local.md").write_text(state)

    said = await run(only(plugins, "ralph-loop", HookEvent.STOP), tmp_path, tmp_path)

    assert said.block == "Go on."
    assert "iteration 2" in said.messages[0]
