"""`clew --help` and `clew completions`: everything on one screen, in every shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli.arguments import parse_arguments, parser, session_spec
from clew.cli.completions import make_script
from clew.cli.main import main
from clew.cli.subcommands import SHELLS, SUMMARIES
from tests.rows import each_row

pytestmark = pytest.mark.req("CLI-2")

_CHECKS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}
_COMPLETE = """
source "$1"; shift
COMP_WORDS=(clew "$@"); COMP_CWORD=$#; COMPREPLY=()
"$(complete -p clew | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" clew "${COMP_WORDS[$COMP_CWORD]}" clew
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_the_help_fits_on_one_screen_and_names_every_flag_and_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])

    text = capsys.readouterr().out
    lines = text.splitlines()
    flags = [flag for action in parser()._actions for flag in action.option_strings]
    assert left.value.code == 0
    assert len(lines) <= 46
    assert max(map(len, lines)) <= 80
    assert [flag for flag in flags if flag not in text] == []
    assert [name for name in SUMMARIES if f" {name} " not in text] == []


@each_row(
    ("argv", "command", "prompt", "start"),
    [
        ([], None, None, None),
        (["fix it"], None, None, "fix it"),
        (["--model", "m", "fix it"], None, None, "fix it"),
        (["-r", "abc", "fix it"], None, None, "fix it"),
        (["--", "simulte"], None, None, "simulte"),
        (["--", "doctor"], None, None, "doctor"),
        (["-p", "--model", "m", "demo"], None, "demo", None),
        (["hello"], None, None, "hello"),
        (["-p", "fix it"], None, "fix it", None),
        (["-p", "--model", "m", "fix it"], None, "fix it", None),
        (["fix it", "-p"], None, "fix it", None),
        (["-p", "--output-format", "json"], None, "", None),
        (["sessions"], "sessions", None, None),
        (["--port", "80", "sessions"], "sessions", None, None),
    ],
)
def test_a_command_line_is_a_subcommand_a_prompt_or_a_first_prompt(
    argv: list[str], command: str | None, prompt: str | None, start: str | None
) -> None:
    found = parse_arguments(argv)

    assert (found.command, found.prompt, found.start) == (command, prompt, start)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_accepts_its_completions(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(make_script(shell))

    assert "simulate" in script.read_text()
    if shutil.which(shell):
        subprocess.run([*_CHECKS[shell], str(script)], check=True, timeout=60)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--disa"], "--disallowed-tools"),
        (["--permission-mode", "acc"], "acceptEdits"),
        (["simu"], "simulate"),
        (["sessions", "expo"], "export"),
        (["completions", "zs"], "zsh"),
    ],
)
def test_bash_completes_flags_values_and_commands(
    words: list[str], found: str, tmp_path: Path
) -> None:
    script = tmp_path / "clew.bash"
    script.write_text(make_script("bash"))

    done = subprocess.run(
        ["bash", "-c", _COMPLETE, "bash", str(script), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.split() == [found]


@pytest.mark.slow("starts clew")
def test_the_command_prints_the_script(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clew.cli", "completions", "bash"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "CLEW_HOME": str(tmp_path)},
    )

    assert done.stdout.strip() == make_script("bash").strip()


def test_the_folder_of_a_plugin_is_absolute_for_agents_in_other_folders(tmp_path: Path) -> None:
    spec = session_spec(parse_arguments(["--plugin-dir", "tidy", "--plugin-dir", str(tmp_path)]))

    assert spec.plugin_folders == (str(Path.cwd() / "tidy"), str(tmp_path))


def test_a_session_that_is_opened_later_keeps_its_own_model_and_mode() -> None:
    flags = ["--model", "m", "--permission-mode", "plan", "--window", "9000", "--max-turns", "3"]
    arguments = parse_arguments([*flags, "--base-url", "http://127.0.0.1:9/v1"])

    first, later = session_spec(arguments), session_spec(arguments, resume="abc")

    assert (first.model, first.permission_mode, first.window) == ("m", "plan", 9_000)
    assert (later.model, later.base_url, later.permission_mode, later.window) == ("", "", "", None)
    assert (later.resume, later.max_turns) == ("abc", 3)
