"""Languages, package managers and test commands, detected from marker files."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct

from clew.extensions.project.text_files import UnreadableFile, exists, read_text

_LIMIT = 200_000
_ENTRIES = 2_000
"""Names of a folder that are compared with an ending."""


class Trait(Struct, frozen=True, kw_only=True):
    """What one marker file says about a project."""

    marker: str
    languages: tuple[str, ...] = ()
    manager: str = ""
    test: str = ""


class ProjectFolder(Struct, frozen=True, kw_only=True):
    """One folder of a project, for looking up files."""

    folder: Path
    root: Path

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder with this name."""
        return exists(self.folder / name)

    def first(self, *names: str) -> str:
        """Return the first of `names` that exists; empty if none does."""
        return next((name for name in names if self.has(name)), "")

    def above(self, name: str) -> bool:
        """Return whether this folder, or one up to the root of the project, has the file."""
        folder = self.folder
        while not exists(folder / name):
            if folder in (self.root, folder.parent):
                return False
            folder = folder.parent
        return True

    def text(self, name: str) -> str:
        """Return the text of a file of the project; empty if there is none."""
        real = Path(os.path.realpath(self.folder / name))
        if not real.is_relative_to(self.root):
            return ""
        try:
            read = read_text(real, _LIMIT)
        except UnreadableFile:
            return ""
        return read.text if read.whole else ""

    def ending(self, *endings: str) -> str:
        """Return the first of `endings` that a name has, as a pattern; empty if none has."""
        try:
            with os.scandir(self.folder) as entries:
                names = [entry.name for entry in islice(entries, _ENTRIES)]
        except OSError:
            return ""
        found = (end for end in endings if any(name.endswith(end) for name in names))
        return next((f"*{end}" for end in found), "")


def traits(look: ProjectFolder) -> Iterator[Trait]:
    """Yield what the marker files of one folder say."""
    for find in (_python, _node):
        yield from find(look)
    for names, language, manager, test in _PLAIN:
        if marker := look.first(*names):
            yield Trait(marker=marker, languages=language, manager=manager, test=test)
    for find in (_jvm, _ruby, _php, _dotnet, _targets):
        yield from find(look)


_PLAIN: tuple[tuple[tuple[str, ...], tuple[str, ...], str, str], ...] = (
    (("deno.json", "deno.jsonc"), ("TypeScript",), "deno", "deno test"),
    (("Cargo.toml",), ("Rust",), "cargo", "cargo test"),
    (("go.mod", "go.work"), ("Go",), "go", "go test ./..."),
    (("Package.swift",), ("Swift",), "swift", "swift test"),
    (("mix.exs",), ("Elixir",), "mix", "mix test"),
    (("rebar.config",), ("Erlang",), "rebar3", "rebar3 eunit"),
    (("pubspec.yaml",), ("Dart",), "pub", "dart test"),
    (("build.sbt",), ("Scala",), "sbt", "sbt test"),
    (("deps.edn", "project.clj"), ("Clojure",), "", ""),
    (("stack.yaml",), ("Haskell",), "stack", "stack test"),
    (("cabal.project",), ("Haskell",), "cabal", "cabal test"),
    (("dune-project",), ("OCaml",), "dune", "dune test"),
    (("build.zig",), ("Zig",), "zig", "zig build test"),
    (("CMakeLists.txt",), ("C/C++",), "cmake", "ctest"),
    (("meson.build",), (), "meson", "meson test"),
    (("MODULE.bazel", "WORKSPACE"), (), "bazel", "bazel test //..."),
)
"""Marker files that need no second look: their names, language, manager, test command."""

_NODE_LOCKS = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
)
_NODE_TESTS = {"npm": "npm test", "pnpm": "pnpm test", "yarn": "yarn test", "bun": "bun run test"}
_PYTHON_LOCKS = (
    ("uv.lock", "uv"),
    ("poetry.lock", "poetry"),
    ("pdm.lock", "pdm"),
    ("Pipfile", "pipenv"),
    ("pixi.lock", "pixi"),
)
_PYTHON_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", "Pipfile", "requirements.txt")


def _python(look: ProjectFolder) -> Iterator[Trait]:
    marker = look.first(*_PYTHON_MARKERS)
    if not marker:
        return
    project = look.text("pyproject.toml")
    configured = re.search(r"^\[tool\.(uv|poetry|pdm|pixi|hatch)\b", project, re.MULTILINE)
    manager = _find_manager(look, _PYTHON_LOCKS) or (configured.group(1) if configured else "pip")
    run = f"{manager} run " if manager not in ("pip", "hatch") else ""
    test = ""
    if _uses_pytest(look, project):
        test = f"{run}pytest"
    elif look.has("manage.py"):
        test = f"{run}python manage.py test"
    elif look.has("tox.ini"):
        test = "tox"
    elif look.has("noxfile.py"):
        test = "nox"
    yield Trait(marker=marker, languages=("Python",), manager=manager, test=test)


def _uses_pytest(look: ProjectFolder, project: str) -> bool:
    if look.first("pytest.ini", "conftest.py", "tests/conftest.py") or "pytest" in project:
        return True
    return any("pytest" in look.text(name) for name in ("setup.cfg", "requirements-dev.txt"))


def _node(look: ProjectFolder) -> Iterator[Trait]:
    if not look.has("package.json"):
        return
    package = _json(look.text("package.json"))
    declared = str(package.get("packageManager", "")).partition("@")[0]
    manager = declared if declared in _NODE_TESTS else _find_manager(look, _NODE_LOCKS) or "npm"
    script = _table(package.get("scripts")).get("test")
    tested = isinstance(script, str) and "no test specified" not in script
    yield Trait(
        marker="package.json",
        languages=("TypeScript",) if look.above("tsconfig.json") else ("JavaScript",),
        manager=manager,
        test=_NODE_TESTS[manager] if tested else "",
    )


def _jvm(look: ProjectFolder) -> Iterator[Trait]:
    languages = ("Kotlin",) if look.has("src/main/kotlin") else ("Java",)
    if look.has("pom.xml"):
        program = "./mvnw" if look.has("mvnw") else "mvn"
        yield Trait(marker="pom.xml", languages=languages, manager="maven", test=f"{program} test")
    marker = look.first(
        "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"
    )
    if marker:
        program = "./gradlew" if look.has("gradlew") else "gradle"
        yield Trait(marker=marker, languages=languages, manager="gradle", test=f"{program} test")


def _ruby(look: ProjectFolder) -> Iterator[Trait]:
    if not look.has("Gemfile"):
        return
    test = ""
    if look.first(".rspec", "spec"):
        test = "bundle exec rspec"
    elif look.has("bin/rails"):
        test = "bin/rails test"
    elif look.has("Rakefile"):
        test = "bundle exec rake test"
    yield Trait(marker="Gemfile", languages=("Ruby",), manager="bundler", test=test)


def _php(look: ProjectFolder) -> Iterator[Trait]:
    if not look.has("composer.json"):
        return
    scripts = _table(_json(look.text("composer.json")).get("scripts"))
    test = "composer test" if "test" in scripts else ""
    if not test and look.first("phpunit.xml", "phpunit.xml.dist"):
        test = "vendor/bin/phpunit"
    yield Trait(marker="composer.json", languages=("PHP",), manager="composer", test=test)


def _dotnet(look: ProjectFolder) -> Iterator[Trait]:
    if marker := look.ending(".sln", ".slnx", ".csproj", ".fsproj"):
        languages = ("F#",) if marker == "*.fsproj" else ("C#",)
        yield Trait(marker=marker, languages=languages, manager="dotnet", test="dotnet test")


def _targets(look: ProjectFolder) -> Iterator[Trait]:
    """Yield task runners, with their `test` task if there is one."""
    for names, program in (
        (("Makefile", "GNUmakefile", "makefile"), "make"),
        (("justfile", "Justfile", ".justfile"), "just"),
    ):
        marker = look.first(*names)
        if marker:
            tested = re.search(r"^test\b[^=\n]*:(?!=)", look.text(marker), re.MULTILINE)
            yield Trait(marker=marker, manager=program, test=f"{program} test" if tested else "")


def _find_manager(look: ProjectFolder, locks: tuple[tuple[str, str], ...]) -> str:
    return next((manager for name, manager in locks if look.above(name)), "")


def _json(text: str) -> Mapping[str, object]:
    try:
        return _table(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
