"""`clew --help` and `clew completions`: everything on one screen, in every shell."""

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyte
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
_COMPLETE_IN_FISH = "source $argv[1]; complete -C $argv[2]"


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


_COMPLETIONS = [
    (["--disa"], "--disallowed-tools"),
    (["--permission-mode", "acc"], "acceptEdits"),
    (["simu"], "simulate"),
    (["sessions", "expo"], "export"),
    (["completions", "zs"], "zsh"),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("words", "found"), _COMPLETIONS)
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


@pytest.mark.slow("starts a shell")
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@pytest.mark.parametrize(("words", "found"), _COMPLETIONS)
def test_fish_completes_flags_values_and_commands(
    words: list[str], found: str, tmp_path: Path
) -> None:
    script = tmp_path / "clew.fish"
    script.write_text(make_script("fish"))

    done = subprocess.run(
        ["fish", "--no-config", "-c", _COMPLETE_IN_FISH, str(script), " ".join(["clew", *words])],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )

    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [found]


@pytest.mark.slow("starts a shell")
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_flags_values_and_commands(tmp_path: Path) -> None:
    (tmp_path / "_clew").write_text(make_script("zsh"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm"}
    screen = pyte.Screen(80, 24)
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=tmp_path
    ) as shell:
        os.close(theirs)
        try:
            setup = "fpath=($PWD $fpath); autoload -Uz compinit && compinit -u -D; PS1='now> '\n"
            _type(ours, setup, screen, until=lambda row: row == "now>")
            for words, found in _COMPLETIONS:
                line = " ".join(["clew", *words])
                _type(ours, f"{line}\t", screen, until=partial(_ends_with, found))
                _type(ours, "\x15", screen, until=lambda row: row == "now>")  # Ctrl-U
        finally:
            shell.kill()
            os.close(ours)


def _ends_with(word: str, row: str) -> bool:
    return row.endswith(word)


def _type(terminal: int, keys: str, screen: pyte.Screen, *, until: Callable[[str], bool]) -> None:
    """Press keys, and read until a line of the screen is as it should be."""
    stream = pyte.Stream(screen)
    os.write(terminal, keys.encode())
    while not any(until(line.rstrip()) for line in screen.display):
        readable, _, _ = select.select([terminal], [], [], 30)
        assert readable, "\n".join(screen.display).rstrip()
        stream.feed(os.read(terminal, 65_536).decode(errors="replace"))


def test_a_completion_is_described_in_one_line() -> None:
    rows = [line for line in make_script("fish").splitlines() if " -d " in line]

    assert [
        summary for summary in SUMMARIES.values() if not any(summary in row for row in rows)
    ] == []
    assert not any("Replays sessions of" in row for row in rows)


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
