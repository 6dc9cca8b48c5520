"""The examples run as they stand, and so does the program in the README."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stderr == ""


def test_the_readme_imports_only_what_is_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert programs

    for program in programs:
        imports: list[ast.stmt] = [
            n for n in ast.parse(program).body if isinstance(n, ast.Import | ast.ImportFrom)
        ]
        exec(compile(ast.Module(imports, type_ignores=[]), "README.md", "exec"), {})
