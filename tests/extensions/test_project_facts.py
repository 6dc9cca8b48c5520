"""What a project is, told from its files without running anything."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from clew.extensions.project import ProjectFacts, load_project

pytestmark = pytest.mark.req("PCX-1")

NOON = datetime(2025, 3, 9, 12).astimezone().timestamp()


def facts(cwd: Path, files: dict[str, str], *, project: Path | None = None) -> ProjectFacts:
    """Write `files` below the project and look at it from `cwd`."""
    root = project or cwd
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    home = root.parent / "home"
    return load_project(
        cwd, user_home=home, clew_home=home / ".clew", clock=lambda: NOON
    ).facts  # fmt: skip


def package(**fields: object) -> str:
    return json.dumps(fields)


TESTED = package(scripts={"test": "vitest"})


@pytest.mark.parametrize(
    ("files", "languages", "managers", "tests"),
    [
        ({}, (), (), ()),
        ({"pyproject.toml": ""}, ("Python",), ("pip",), ()),
        (
            {"pyproject.toml": "[tool.pytest.ini_options]", "uv.lock": ""},
            ("Python",),
            ("uv",),
            ("uv run pytest",),
        ),
        ({"pyproject.toml": "[tool.poetry]", "conftest.py": ""}, ("Python",), ("poetry",),
         ("poetry run pytest",)),
        ({"pyproject.toml": "[tool.hatch]\n# pytest"}, ("Python",), ("hatch",), ("pytest",)),
        ({"requirements.txt": "", "manage.py": ""}, ("Python",), ("pip",),
         ("python manage.py test",)),
        ({"setup.cfg": "", "tox.ini": ""}, ("Python",), ("pip",), ("tox",)),
        ({"setup.py": "", "noxfile.py": ""}, ("Python",), ("pip",), ("nox",)),
        ({"pyproject.toml": "[tool.uvx]\nbroken = "}, ("Python",), ("pip",), ()),
        ({"package.json": TESTED}, ("JavaScript",), ("npm",), ("npm test",)),
        ({"package.json": TESTED, "pnpm-lock.yaml": "", "tsconfig.json": ""}, ("TypeScript",),
         ("pnpm",), ("pnpm test",)),
        ({"package.json": TESTED, "bun.lock": ""}, ("JavaScript",), ("bun",), ("bun run test",)),
        (
            {"package.json": package(packageManager="yarn@4.1.0", scripts={})},
            ("JavaScript",),
            ("yarn",),
            (),
        ),
        (
            {"package.json": package(packageManager="obey me@1", scripts={"test": "x"})},
            ("JavaScript",),
            ("npm",),
            ("npm test",),
        ),
        (
            {"package.json": package(scripts={"test": 'echo "Error: no test specified"'})},
            ("JavaScript",),
            ("npm",),
            (),
        ),
        ({"package.json": "[" * 100_000}, ("JavaScript",), ("npm",), ()),
        ({"package.json": "[1]"}, ("JavaScript",), ("npm",), ()),
        ({"Cargo.toml": ""}, ("Rust",), ("cargo",), ("cargo test",)),
        ({"go.mod": ""}, ("Go",), ("go",), ("go test ./...",)),
        ({"pom.xml": "", "mvnw": ""}, ("Java",), ("maven",), ("./mvnw test",)),
        ({"build.gradle.kts": "", "src/main/kotlin/A.kt": ""}, ("Kotlin",), ("gradle",),
         ("gradle test",)),
        ({"Gemfile": "", "spec/a_spec.rb": ""}, ("Ruby",), ("bundler",), ("bundle exec rspec",)),
        ({"Gemfile": "", "bin/rails": ""}, ("Ruby",), ("bundler",), ("bin/rails test",)),
        ({"Gemfile": "", "Rakefile": ""}, ("Ruby",), ("bundler",), ("bundle exec rake test",)),
        ({"composer.json": package(scripts={"test": "x"})}, ("PHP",), ("composer",),
         ("composer test",)),
        ({"composer.json": "{}", "phpunit.xml": ""}, ("PHP",), ("composer",),
         ("vendor/bin/phpunit",)),
        ({"App.sln": ""}, ("C#",), ("dotnet",), ("dotnet test",)),
        ({"Lib.fsproj": ""}, ("F#",), ("dotnet",), ("dotnet test",)),
        ({"CMakeLists.txt": ""}, ("C/C++",), ("cmake",), ("ctest",)),
        ({"Makefile": "all:\n\ttrue\ntest: all\n\ttrue\n"}, (), ("make",), ("make test",)),
        ({"Makefile": "test := no\ntested:\n"}, (), ("make",), ()),
        ({"justfile": "test *args:\n  true\n"}, (), ("just",), ("just test",)),
        ({"deno.json": "{}"}, ("TypeScript",), ("deno",), ("deno test",)),
        (
            {"pyproject.toml": "", "package.json": TESTED, "Makefile": "test:\n"},
            ("Python", "JavaScript"),
            ("pip", "npm", "make"),
            ("npm test", "make test"),
        ),
    ],
)  # fmt: skip
def test_marker_files_tell_what_a_project_is(
    tmp_path: Path,
    *,
    files: dict[str, str],
    languages: tuple[str, ...],
    managers: tuple[str, ...],
    tests: tuple[str, ...],
) -> None:
    found = facts(tmp_path / "project", {"readme": "", **files})

    assert (found.languages, found.managers, found.tests) == (languages, managers, tests)


def test_a_package_of_a_larger_repository_knows_of_both(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    inner = root / "packages" / "one"
    files = {
        ".git/HEAD": "ref: refs/heads/main\n",
        "pnpm-lock.yaml": "",
        "tsconfig.json": "{}",
        "Makefile": "test:\n",
        "packages/one/package.json": TESTED,
        "packages/package.json": "not ours",
        "packages/one/below/Cargo.toml": "",
    }

    found = facts(inner, files, project=root)

    assert found.root == root
    assert found.languages == ("TypeScript",)
    assert found.managers == ("pnpm", "make")
    assert found.tests == ("pnpm test", "make test (in ../..)")
    assert found.markers == ("packages/one/package.json", "packages/package.json", "Makefile")


def test_above_the_project_nothing_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text("", encoding="utf-8")

    found = facts(tmp_path / "project", {"go.mod": ""})

    assert found.languages == ("Go",)


def test_a_marker_that_leads_elsewhere_is_not_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "elsewhere").write_text("test:\n", encoding="utf-8")
    (project / "Makefile").symlink_to(tmp_path / "elsewhere")

    assert facts(project, {}).tests == ()


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        ("ref: refs/heads/main\n", "main"),
        ("ref: refs/heads/feature/한국어-1", "feature/한국어-1"),
        ("a" * 40, "detached"),
        ("b" * 64, "detached"),
        ("ref: refs/heads/.invalid\n", ""),
        ("ref: refs/heads/evil\n# Obey", ""),
        ("ref: refs/heads/with space", ""),
        ("ref: refs/heads/" + "x" * 500, ""),
        ("nonsense", ""),
        ("", ""),
    ],
)
def test_the_branch_is_read_from_the_head(tmp_path: Path, head: str, branch: str) -> None:
    assert facts(tmp_path / "project", {".git/HEAD": head}).branch == branch


@pytest.mark.parametrize("relative", [False, True])
def test_a_worktree_says_where_its_head_is(tmp_path: Path, *, relative: bool) -> None:
    head = tmp_path / "main" / ".git" / "worktrees" / "side"
    head.mkdir(parents=True)
    (head / "HEAD").write_text("ref: refs/heads/side\n", encoding="utf-8")
    place = "../main/.git/worktrees/side" if relative else str(head)

    assert facts(tmp_path / "side", {".git": f"gitdir: {place}\n"}).branch == "side"


@pytest.mark.parametrize("content", ["ref: refs/heads/private", "a" * 40])
def test_a_head_that_leads_elsewhere_is_not_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "elsewhere").write_text(content, encoding="utf-8")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / ".git" / "HEAD").symlink_to(tmp_path / "elsewhere")

    assert facts(tmp_path / "project", {}).branch == ""


def test_a_file_that_is_no_pointer_gives_no_branch(tmp_path: Path) -> None:
    assert facts(tmp_path / "project", {".git": "hello"}).branch == ""


def test_date_and_platform_are_given(tmp_path: Path) -> None:
    found = facts(tmp_path / "project", {"readme": ""})

    assert found.date == "2025-03-09"
    assert found.platform
