"""The validator of structured answers: what it accepts, and the errors that it names."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew import InteractiveSession, MemoryStore
from clew.core.errors import AnswerRejected, ConfigError
from clew.providers.scripted import ScriptedProvider
from clew.sdk.json_schema import JsonSchema, load_schema
from clew.sdk.structured_answer import ask_structured, parse_answer, read_schema
from tests.rows import each_row

pytestmark = pytest.mark.req("CLI-2")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text('ab {}[]"`\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab{", max_size=3), inner),
    max_leaves=6,
)
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "below": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name"],
        }
    },
    "$ref": "#/$defs/node",
}


def errors(schema: Any, value: Any) -> list[str]:
    return load_schema(json.dumps(schema).encode()).find_errors(value)


@each_row(
    ("schema", "good", "bad", "error"),
    [
        ({"type": "integer"}, 3.0, True, "$ must be of type integer, not true"),
        ({"type": ["string", "null"]}, None, 1, "$ must be of type string or null, not 1"),
        ({"enum": [1, "a"]}, 1.0, True, '$ must be one of [1,"a"], not true'),
        ({"const": {"a": [1]}}, {"a": [1]}, {"a": []}, '$ must be {"a":[1]}, not {"a":[]}'),
        ({"minimum": 2}, 2, 1, "$ must be at least 2, not 1"),
        ({"exclusiveMaximum": 2}, 1.9, 2, "$ must be less than 2, not 2"),
        ({"multipleOf": 0.1}, 0.3, 0.35, "$ must be a multiple of 0.1, not 0.35"),
        ({"maxLength": 2}, "éé", "abc", "$ may have at most 2 characters and has 3"),
        ({"pattern": "^a"}, "ab", "ba", "$ does not match the pattern ^a"),
        ({"required": ["a"]}, {"a": 1}, {}, "$ lacks the property 'a'"),
        ({"additionalProperties": False}, {}, {"a b": 1}, "$['a b'] is not allowed"),
        ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}, "the name $.ab may have"),
        ({"patternProperties": {"^n": {"type": "null"}}}, {"n": None}, {"n": 1}, "$.n must be"),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}, "therefore needs 'b'"),
        ({"minProperties": 1}, {"a": 1}, {}, "$ needs at least 1 properties and has 0"),
        ({"items": {"type": "string"}}, ["a"], ["a", 1], "$[1] must be of type string"),
        ({"prefixItems": [{"type": "null"}], "items": False}, [None], [None, 1], "$[1] is not"),
        ({"uniqueItems": True}, [1, True, "1"], [{"a": 1}, {"a": 1.0}], "$ has equal items"),
        ({"contains": {"const": 1}}, [2, 1], [2], "$ has 0 items that match `contains`"),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 4, "$ must be at most 3"),
        ({"anyOf": [{"type": "null"}, {"minimum": 5}]}, 7, 4, "matches no alternative"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, 9, 2, "matches 2 alternatives"),
        ({"not": {"type": "null"}}, 1, None, "$ matches what `not` forbids"),
        (
            {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"minimum": 1}},
            "a",
            0,
            "$ must be at least 1",
        ),
        (TREE, {"name": "a", "below": [{"name": "b"}]}, {"name": "a", "below": [{}]}, "$.below[0]"),
    ],
)
def test_a_keyword_accepts_and_rejects(schema: Any, good: Any, bad: Any, error: str) -> None:
    assert errors(schema, good) == []
    assert error in errors(schema, bad)[0]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"type": "text"}, "unknown type 'text'"),
        ({"properties": {"a": {"pattern": "("}}}, "pattern at #/properties/a is not valid"),
        ({"unevaluatedProperties": False}, "uses unevaluatedProperties"),
        ({"items": {"$ref": "other.json"}}, "only references inside the file"),
    ],
)
def test_a_schema_that_cannot_be_checked_is_rejected(schema: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        errors(schema, {})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "cannot be read"), ("{", "is not valid JSON"), ("[]", "must be a JSON object")],
)
def test_a_file_without_a_schema_is_an_error(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    path = tmp_path / "schema.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(ConfigError, match=rf"schema\.json.*{sentence}"):
        read_schema(path)


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"properties": {"type": {"type": "string"}, "pattern": {"type": "string"}}}

    assert errors(schema, {"type": "x", "pattern": "("}) == []


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert errors({"$ref": "#"}, 1) == ["$ is nested too deeply"]


@given(VALUES)
def test_a_value_satisfies_the_schema_that_lists_it(value: Any) -> None:
    assert errors({"const": value}, value) == []
    assert errors({"enum": [[value], value]}, value) == []
    assert errors({"not": {"const": value}}, value) != []


@given(VALUES, st.sampled_from(["{}", "Here:\n```json\n{}\n```\nDone.", "\n{}\n"]))
def test_a_value_is_found_in_an_answer(value: Any, frame: str) -> None:
    text = frame.replace("{}", json.dumps(value))

    found, problems = parse_answer(text, JsonSchema({}))

    assert (found, problems) == (value, [])


@pytest.mark.anyio
async def test_a_model_may_correct_its_answer_a_few_times(tmp_path: Path) -> None:
    schema = JsonSchema({"type": "array", "items": {"type": "integer"}})
    provider = ScriptedProvider(["none", '["a"]', "[1]", "no", "no"])
    async with InteractiveSession(
        cwd=tmp_path, provider=provider, model="scripted", store=MemoryStore()
    ) as session:
        answer = await ask_structured(session, "numbers?", schema)
        assert (answer.value, answer.repairs, answer.result.response) == ([1], 2, "[1]")

        with pytest.raises(AnswerRejected, match="after 1 correction") as rejected:
            await ask_structured(session, "numbers?", schema, max_repairs=1)
    assert len(rejected.value.errors) == 1


@pytest.mark.anyio
async def test_a_correction_attaches_nothing_that_the_model_named(tmp_path: Path) -> None:
    (tmp_path / "private.txt").write_text("hush", encoding="utf-8")
    answers = ['{"n": "@private.txt"}', '{"n": 1}']
    schema = JsonSchema({"type": "object", "properties": {"n": {"type": "integer"}}})
    async with InteractiveSession(
        cwd=tmp_path, provider=ScriptedProvider(answers), model="scripted", store=MemoryStore()
    ) as session:
        answer = await ask_structured(session, "numbers?", schema)

        assert answer.repairs == 1
        assert "hush" not in str(session.get_messages())
