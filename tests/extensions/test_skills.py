"""Skills are found, described to the model and filled in; nothing hostile gets through."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.extensions.discovery import MAX_FILES
from clew.extensions.skill_template import fill_template, render_skill
from clew.extensions.skills import FoundSkills, Skill, discover_skills, format_skill_list
from tests.rows import each_row

pytestmark = pytest.mark.req("SKL-1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a project, a user's home and Clew's home in it."""
    (tmp_path / "project").mkdir()
    return tmp_path


def find(home: Path) -> FoundSkills:
    return discover_skills(home / "project", user_home=home / "user", clew_home=home / "clew")


def write(path: Path, head: str = "", body: str = "The body.\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{head}\n---\n{body}" if head else body, encoding="utf-8")
    return path


def skill(home: Path, name: str, head: str = "description: d", body: str = "The body.\n") -> Path:
    return write(home / f"project/.claude/skills/{name}/SKILL.md", head, body)


def only(home: Path) -> Skill:
    found = find(home)
    assert found.refused == ()
    (one,) = found.skills
    return one


def whys(found: FoundSkills) -> dict[str, str]:
    return {refused.path.name: refused.why for refused in found.refused}


def test_the_first_folder_of_the_order_wins(home: Path) -> None:
    places = [
        "project/.claude/skills/x/SKILL.md",
        "project/.claude/commands/x.md",
        "project/.clew/skills/x/SKILL.md",
        "clew/skills/x/SKILL.md",
        "user/.claude/skills/x/SKILL.md",
        "user/.claude/commands/x.md",
        "project/.agents/skills/x/SKILL.md",
    ]
    for place in places:
        write(home / place, f"description: {place}")

    for count, place in enumerate(places, 1):
        found = find(home)
        assert [each.description for each in found.skills] == [place]
        assert found.skills[0].source == ("project" if place.startswith("project") else "user")
        assert len(found.shadowed) == len(places) - count
        (home / place).unlink()

    assert find(home) == FoundSkills()


def test_every_field_is_read(home: Path) -> None:
    path = skill(
        home,
        "deploy",
        "name: ship\ndescription: |\n  Ships\n  it.\nwhen_to_use: On Fridays.\n"
        "argument-hint: [where]\ndisable-model-invocation: true\nuser-invocable: false\n"
        "context: fork\nagent: Plan\nallowed-tools: Bash(git *), Read\nmodel: haiku",
    )

    assert only(home) == Skill(
        name="ship",
        description="Ships it.",
        when_to_use="On Fridays.",
        path=path,
        source="project",
        argument_hint="[where]",
        model_invocable=False,
        user_invocable=False,
        fork=True,
        agent="Plan",
        allowed_tools=("Bash(git *)", "Read"),
        model="haiku",
        tree=home / "project",
    )


def test_without_fields_the_folder_names_and_the_first_paragraph_describes(home: Path) -> None:
    skill(home, "plain", "", "# Title\n\nDoes this\nand that.\n\nMore.\n")

    found = only(home)

    assert (found.name, found.description) == ("plain", "Does this and that.")
    assert found.model_invocable
    assert found.user_invocable
    assert not found.fork


def test_a_command_is_named_after_its_file_and_its_folders(home: Path) -> None:
    commands = home / "project/.claude/commands"
    write(commands / "review.md", "name: other")
    write(commands / "db/up/migrate.md")
    write(commands / "my notes.md")
    write(commands / "notes.txt")

    assert {each.name for each in find(home).skills} == {"review", "db:up:migrate", "my-notes"}


@pytest.mark.parametrize("name", ["two words", "x" * 65, "a/b", "-x", "'  '", "a:b"])
def test_a_name_that_nobody_could_type_gives_way_to_the_folder(home: Path, name: str) -> None:
    skill(home, "folder", f"name: {name}\ndescription: d")

    assert only(home).name == "folder"


def test_a_broken_head_loads_with_a_problem(home: Path) -> None:
    skill(home, "x", "description: Use when: it rains\nallowed-tools: Read")

    found = only(home)

    assert found.description == "Use when: it rains"
    assert found.allowed_tools == ("Read",)
    assert "line by line" in found.problems[0]


def test_fields_that_would_do_something_elsewhere_are_named(home: Path) -> None:
    skill(home, "x", "description: d\nhooks: {Stop: []}\neffort: high\ncolor: red")

    assert only(home).problems == (
        "`hooks` has no effect in Clew",
        "`effort` has no effect in Clew",
    )


def test_the_folder_of_a_skill_is_known_in_its_list_of_tools(home: Path) -> None:
    path = skill(home, "x", "description: d\nallowed-tools: Bash(${CLAUDE_SKILL_DIR}/run.sh *)")

    assert only(home).allowed_tools == (f"Bash({path.parent}/run.sh *)",)


def test_what_is_no_skill_is_refused_with_a_reason(home: Path) -> None:
    skills = home / "project/.claude/skills"
    (skills / "directory/SKILL.md").mkdir(parents=True)
    skill(home, "good")
    for name, data in {
        "empty": b"",
        "blank": b"\xef\xbb\xbf \n",
        "binary": b"\x7fELF\0\0",
        "latin": b"caf\xe9 au lait",
        "huge": b"x" * 1_000_001,
        "open": b"---\nname: x\n",
        "endless": b"---\ndescription: x\n" + b"a: b\n" * 20_000 + b"---\n",
    }.items():
        (skills / name).mkdir()
        (skills / name / "SKILL.md").write_bytes(data)
    (skills / "pipe").mkdir()
    os.mkfifo(skills / "pipe/SKILL.md")
    (skills / "nothing").mkdir()
    write(skills / "loose.md", "name: loose")

    found = find(home)

    assert [each.name for each in found.skills] == ["good"]
    reasons = {refused.path.parent.name: refused.why for refused in found.refused}
    assert reasons == {
        "directory": "is not a regular file",
        "pipe": "is not a regular file",
        "empty": "is empty",
        "blank": "is empty",
        "binary": "is not a text file",
        "latin": "is not valid UTF-8 (byte 3)",
        "huge": "has 1,000,001 bytes; the limit is 1,000,000",
        "open": "cannot be used: the frontmatter starts with --- but has no closing ---",
        "endless": "cannot be used: the frontmatter starts with --- but has no closing ---"
        " within 16,384 characters",
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_refused(home: Path) -> None:
    skill(home, "secret").chmod(0)
    locked = home / "project/.claude/commands"
    locked.mkdir()
    locked.chmod(0)

    found = find(home)

    locked.chmod(0o700)
    assert whys(found) == {
        "SKILL.md": "cannot be read: Permission denied",
        "commands": "cannot be read: Permission denied",
    }


def test_links_may_not_lead_out_of_the_project(home: Path) -> None:
    outside = write(home / "outside/SKILL.md", "description: d")
    inside = write(home / "project/kept/SKILL.md", "description: d")
    skills = home / "project/.claude/skills"
    for name in ("file", "inner-file", "lost-file"):
        (skills / name).mkdir(parents=True)
    (skills / "file/SKILL.md").symlink_to(outside)
    (skills / "inner-file/SKILL.md").symlink_to(inside)
    (skills / "lost-file/SKILL.md").symlink_to(skills / "nowhere")
    (skills / "folder").symlink_to(outside.parent)
    (skills / "inner-folder").symlink_to(inside.parent)
    (skills / "lost").symlink_to(home / "nowhere")
    (skills / "loop").symlink_to(skills / "loop")
    commands = home / "project/.claude/commands"
    commands.mkdir()
    (commands / "etc.md").symlink_to("/etc/hostname")
    (commands / "out").symlink_to(outside.parent)
    (commands / "round").symlink_to(commands)
    (home / "project/.agents").symlink_to(home / "user")
    write(home / "user/skills/stolen/SKILL.md")

    found = find(home)

    assert {each.name for each in found.skills} == {"inner-file", "inner-folder"}
    out = f"leads out of {home / 'project'} through a link"
    assert {str(each.path.relative_to(home / "project")): each.why for each in found.refused} == {
        ".claude/skills/file/SKILL.md": out,
        ".claude/skills/lost-file/SKILL.md": "is a broken link",
        ".claude/skills/folder": out,
        ".claude/skills/lost": "is a broken link",
        ".claude/skills/loop": "cannot be read: Too many levels of symbolic links",
        ".claude/commands/etc.md": out,
        ".claude/commands/out": out,
        ".agents/skills": out,
    }


def test_the_users_own_links_may_lead_anywhere(home: Path) -> None:
    outside = write(home / "dotfiles/x/SKILL.md", "description: d")
    (home / "user/.claude/skills").mkdir(parents=True)
    (home / "user/.claude/skills/x").symlink_to(outside.parent)

    assert only(home).source == "user"


def test_a_file_that_becomes_a_link_out_of_the_project_is_not_rendered(home: Path) -> None:
    path = skill(home, "x")
    found = only(home)
    path.unlink()
    path.symlink_to(write(home / "secret", body="the secret"))

    with pytest.raises(ConfigError, match="leads out of"):
        render_skill(found, "", session_id="s", project_dir=home)


def test_one_folder_under_two_names_is_read_once(home: Path) -> None:
    write(home / "project/.agents/skills/x/SKILL.md", "description: d")
    (home / "project/.claude").mkdir()
    (home / "project/.claude/skills").symlink_to(home / "project/.agents/skills")

    found = find(home)

    assert len(found.skills) == 1
    assert found.shadowed == ()


def test_folders_too_deep_are_refused(home: Path) -> None:
    write(home / "project/.claude/commands" / "/".join("abcdefg") / "x.md")
    write(home / "project/.claude/commands" / "/".join("abcdefgh") / "y.md")

    found = find(home)

    assert [each.name for each in found.skills] == ["a:b:c:d:e:f:g:x"]
    assert whys(found) == {"h": "is more than 8 folders deep"}


@pytest.mark.slow("makes 10,000 folders")
def test_ten_thousand_skills_are_loaded(home: Path) -> None:
    for number in range(10_000):
        folder = home / f"project/.claude/skills/s{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_bytes(b"---\ndescription: d\n---\nBody\n")

    found = find(home)

    assert len(found.skills) == 10_000
    listed = format_skill_list(found.skills)
    assert len(listed) <= 8_000
    assert "more skills are not listed" in listed


@pytest.mark.slow("makes many folders")
def test_a_flood_of_folders_ends_with_a_reason(home: Path) -> None:
    skills = home / "project/.claude/skills"
    skills.mkdir(parents=True)
    for number in range(MAX_FILES + 1):
        (skills / f"s{number}").mkdir()

    assert whys(find(home)) == {"skills": "has more than 20,000 files; the rest is not read"}


def test_a_projects_skills_are_read_up_to_a_length_and_the_users_all(home: Path) -> None:
    head = "description: " + "x" * 16_000
    for number in range(130):
        skill(home, f"s{number:03}", head)
        write(home / f"clew/skills/u{number:03}/SKILL.md", head)

    found = find(home)

    assert sum(each.source == "project" for each in found.skills) == 125
    assert sum(each.source == "user" for each in found.skills) == 130
    assert {refused.why for refused in found.refused} == {
        "is beyond the limit of 2,000,000 characters for one search"
    }


@pytest.mark.req("PCX-3")
def test_only_the_head_is_read_until_a_skill_is_called(home: Path) -> None:
    path = skill(home, "x", "description: d\nwide: " + "x" * 12_000, "Body.\n" * 10_000)
    with path.open("ab") as file:
        file.write(b"\xff\xfe\0")

    found = only(home)

    assert found.description == "d"
    with pytest.raises(ConfigError, match=r"skill x cannot be called.*is not a text file"):
        render_skill(found, "", session_id="s", project_dir=home)


@pytest.mark.req("PCX-3")
def test_a_head_of_any_length_is_read_whole(home: Path) -> None:
    lengths = [*range(4_040, 4_100), 15_000]
    for length in lengths:
        head = f"description: {'é' * (length // 2)}{'x' * (length % 2)}\nmodel: m"
        skill(home, f"s{length}", head, "---x\n" + "é" * 5_000)

    found = {each.name: each for each in find(home).skills}

    for length in lengths:
        assert len(found[f"s{length}"].description.encode()) == length
        assert found[f"s{length}"].model == "m"


@pytest.mark.req("PCX-3")
def test_a_skill_is_read_when_it_is_called(home: Path) -> None:
    path = skill(home, "x", body="Old.\n")
    found = only(home)

    write(path, "description: other", "\nNew, in $ARGUMENTS.\n\n")
    assert render_skill(found, "June", session_id="s", project_dir=home) == "New, in June."

    path.unlink()
    with pytest.raises(ConfigError, match="no longer exists"):
        render_skill(found, "", session_id="s", project_dir=home)


@pytest.mark.req("PCX-3")
def test_the_model_learns_names_and_descriptions_of_what_it_may_call(home: Path) -> None:
    skill(home, "a", "description: Does a.\nwhen_to_use: Often.", "Secret body.\n")
    skill(home, "b", "description: Does b.\ndisable-model-invocation: yes")
    skill(home, "c", "description: Does c.\nuser-invocable: false")
    skill(home, "d", "description: Does d.\nhide-from-slash-command-tool: 'true'")

    assert format_skill_list(find(home).skills) == "- a: Does a. Often.\n- c: Does c."


def described(name: str, description: str) -> Skill:
    return Skill(name=name, description=description, path=Path(name), source="user")


def test_a_catalogue_that_is_too_long_shortens_descriptions_then_drops_them() -> None:
    skills = [described(f"s{number}", "word " * 100) for number in range(10)]

    lines = format_skill_list(skills, max_chars=600).splitlines()
    assert lines[9].startswith("- s9: word word")
    assert {len(line) for line in lines} == {59}
    assert all(line.endswith("…") for line in lines)
    assert format_skill_list(skills, max_chars=100) == "\n".join(
        f"- s{number}" for number in range(10)
    )
    assert format_skill_list(skills, max_chars=45) == "- s0\n- s1\n(8 more skills are not listed)"


def test_a_description_cannot_pass_for_another_line() -> None:
    assert format_skill_list([described("a", "x\n- b: y\x1b[2J")]) == "- a: x - b: y [2J"


@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=64), st.text(max_size=2_000))),
    st.integers(40, 3_000),
)
def test_a_catalogue_keeps_to_its_size_and_says_what_it_leaves_out(
    entries: list[tuple[str, str]], max_chars: int
) -> None:
    lines = format_skill_list(
        [described(*entry) for entry in entries], max_chars=max_chars
    ).splitlines()

    assert sum(len(line) + 1 for line in lines) - 1 <= max_chars
    names = [line.removeprefix("- ").partition(":")[0] for line in lines if line[0] == "-"]
    assert names == [name for name, _ in entries][: len(names)]
    if len(names) < len(entries):
        assert lines[-1] == f"({len(entries) - len(names)} more skills are not listed)"


@each_row(
    ("body", "arguments", "filled"),
    [
        ("Fix $ARGUMENTS now", "a  'b c'", "Fix a  'b c' now"),
        ("$ARGUMENTS[0]/$ARGUMENTS[1]", "a 'b c'", "a/b c"),
        ("$0-$1", "a 'b c'", "a-b c"),
        ("$1-$2", "a 'b c'", "a-b c"),
        ("$1 $ARGUMENTS[0]", "a b", "b a"),
        ("$0 $1 $2", "a", "a $1 $2"),
        ("$0 $10 $5k $1.00 $ARGUMENTS_X", "a b", "a $10 $5k b.00 $ARGUMENTS_X"),
        (r"\$0 \\$0 \$x \$ARGUMENTS $0", "a", r"$0 \\a \$x $ARGUMENTS a"),
        ("$0", "it's \"half", "it's"),
        ("No place", "a b", "No place\n\nARGUMENTS: a b"),
        ("Only $3", "a", "Only $3\n\nARGUMENTS: a"),
        ("", "a", "ARGUMENTS: a"),
        ("No place", "", "No place"),
        ("[$ARGUMENTS] $0", "", "[] $0"),
        ("Run !`rm -rf $ARGUMENTS`", "x", "Run !`rm -rf x`"),
    ],
)
def test_arguments_go_where_the_text_wants_them(body: str, arguments: str, filled: str) -> None:
    assert fill_template(body, arguments) == filled


def test_named_arguments_are_words_by_their_place(home: Path) -> None:
    skill(home, "x", "description: d\narguments: issue branch", "$branch|$issue|$branches|$1|")

    found = only(home)

    assert (
        render_skill(found, "7 main", session_id="s", project_dir=home) == "main|7|$branches|main|"
    )
    assert render_skill(found, "7", session_id="s", project_dir=home) == "|7|$branches|$1|"


def test_session_and_folders_are_filled_in(home: Path) -> None:
    names = ("CLAUDE_SESSION_ID", "CLEW_SESSION_ID", "CLAUDE_SKILL_DIR", "CLAUDE_PROJECT_DIR")
    path = skill(home, "x", body=" ".join(f"${{{name}}}" for name in (*names, "CLEW_X")))
    found = only(home)

    here = path.parent
    text = render_skill(found, "", session_id="s1", project_dir=home)
    assert text == f"s1 s1 {here} {home} ${{CLEW_X}}"


def test_a_command_to_be_run_stays_text(home: Path) -> None:
    mark = home / "mark"
    skill(home, "x", body=f"State: !`touch {mark}`\n```!\ntouch {mark}\n```\n")

    text = render_skill(only(home), "", session_id="s", project_dir=home)

    assert f"!`touch {mark}`" in text
    assert not mark.exists()


PIECES = st.sampled_from(
    ["$ARGUMENTS", "$0", "$1", "$ARGUMENTS[1]", "$name", "${CLEW_SESSION_ID}", "\\$0", "x", "!`y`"]
)


@given(st.lists(PIECES, min_size=1).map(" ".join))
def test_arguments_are_never_expanded_themselves(arguments: str) -> None:
    filled = fill_template(
        "<$ARGUMENTS>|${CLEW_SESSION_ID}", arguments, names=["name"], values={"SESSION_ID": "$0"}
    )

    assert filled == f"<{arguments}>|$0"


@given(st.text(), st.text())
def test_filling_never_fails_and_loses_no_argument(body: str, arguments: str) -> None:
    filled = fill_template(body, arguments)

    if "$" not in body:
        assert filled.startswith(body)
        assert filled.endswith(arguments)
