"""Conformance checks for the search of a store: the same hits in the same order everywhere.

@pytest.mark.anyio
@pytest.mark.parametrize("check", RECALL_CHECKS)
async def test_my_store_finds_entries(check):
    await check(MyStore())
"""

from collections.abc import Sequence

from clew.context.recall.query import parse_query
from clew.context.recall.search import Hit
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import SessionNotFound
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.stores.protocol import Store
from clew.testing.stores import A, B, StoreCheck, a_record, expect_error

_RUN = ToolCall(call_id=CallId("r"), name="Bash", arguments='{"command":"pytest tests/auth"}')
_READ = ToolCall(call_id=CallId("f"), name="Read", arguments='{"file_path":"src/auth/login.py"}')
_EDIT = ToolCall(
    call_id=CallId("e"),
    name="Edit",
    arguments='{"file_path":"src/auth/login.py","old_string":"ttl = 60","new_string":"ttl = 900"}',
)
_TALK: Sequence[Message] = (
    user("Fix the login bug. Always keep the session timeout below 900 seconds."),
    assistant("I run the tests first.", _RUN),
    tool_result(
        _RUN, "test_login FAILED: TokenExpired in refreshToken\n[exit code 1]", failed=True
    ),
    assistant("The cause is a short lifetime.", _READ),
    tool_result(_READ, "1\tdef refreshToken(user):\n2\t    ttl = 60\n3\t    return max_token_age"),
    assistant(_EDIT),
    tool_result(_EDIT, "Edited src/auth/login.py: 1 place at line 2."),
    assistant("Fixed: commit 3f9a2c7d raises the lifetime of tokens. 計算機の設定も更新した。"),
    user("Thanks. <system-reminder>The zebra file is stale.</system-reminder>"),
)


def _entries(messages: Sequence[Message], *, start: int = 1, at: float = 1_000.0) -> list[Entry]:
    return [
        Entry(id=EntryId(number), at=at + number, body=MessageAdded(message=message))
        for number, message in enumerate(messages, start)
    ]


async def _talk(store: Store) -> None:
    await store.create(a_record("a"))
    await store.append(A, _entries(_TALK))


async def _find(store: Store, query: str, session_id: SessionId | None = A) -> list[Hit]:
    found = await store.recall(parse_query(query, now=2_000.0), session_id=session_id)
    return list(found.hits)


async def _ids(store: Store, query: str) -> list[int]:
    return [hit.unit.entry_id for hit in await _find(store, query)]


async def ranks_rare_words_first(store: Store) -> None:
    """A rare word counts more than a frequent one, and words of questions count nothing."""
    await store.create(a_record("a"))
    texts = [f"the build of part {number} was fine" for number in range(30)]
    texts[7] = "the build needs libzeta"
    await store.append(A, _entries([user(text) for text in texts]))

    assert (await _ids(store, "which build needs libzeta?"))[0] == 8
    assert (await _ids(store, "libzeta build"))[0] == 8
    assert await _ids(store, "nowhere") == []


async def chooses_the_best_of_many(store: Store) -> None:
    """Of many entries with a word, those that have it most often come first, however old."""
    await store.create(a_record("a"))
    texts = [f"gadget {chr(97 + n % 26) * 5} {chr(97 + n // 26) * 7}" for n in range(150)]
    texts[4] = "gadget gadget gadget gadgets"
    texts[6] = "a gadget and its flange"
    await store.append(A, _entries([user(text) for text in texts]))

    assert (await _ids(store, "gadget"))[0] == 5
    assert (await _ids(store, "gadget flange"))[0] == 7


async def finds_a_call_with_its_result(store: Store) -> None:
    """A call and its result are one hit, found by the words of either, with its exit status."""
    await _talk(store)

    hit, *others = await _find(store, "pytest TokenExpired")

    assert (hit.unit.entry_id, hit.unit.called_in, hit.unit.status) == (3, 2, "exit 1")
    assert hit.unit.text.startswith("$ pytest tests/auth\n")
    assert 2 not in [other.unit.entry_id for other in others]


async def finds_names_and_phrases(store: Store) -> None:
    """Names are found whole and by parts, phrases exactly, hashes by their beginning."""
    await _talk(store)

    assert set((await _ids(store, "refreshToken"))[:2]) == {3, 5}
    assert (await _ids(store, "max_token_age"))[0] == 5
    assert (await _ids(store, "token age"))[0] == 5
    assert (await _ids(store, "3f9a2c"))[0] == 8
    assert (await _ids(store, "auth/login.py"))[0] in (5, 7)
    assert await _ids(store, '"session timeout below"') == [1]
    assert await _ids(store, '"timeout session"') == []
    assert await _ids(store, "算機") == [8]


async def finds_versions_and_inner_names(store: Store) -> None:
    """A version is found with or without its `v`, a name by the words that it ends with."""
    await store.create(a_record("a"))
    others = [f"release {number}.3.1" for number in range(10, 40)]
    texts = ["Release v2.3.1-rc4 broke", "now 2.4.0", "getUserName()", "getHTTPResponseCode()"]
    await store.append(A, _entries([user(text) for text in (*texts, "the username", *others)]))

    for query in ("2.3.1", "2.3.1-rc4", "v2.3.1", "V2.3.1-RC4"):
        assert (await _ids(store, query))[:1] == [1], query
    assert (await _ids(store, "2.4.0"))[:1] == (await _ids(store, "v2.4"))[:1] == [2]
    assert await _ids(store, "username") == [5, 3]
    assert (await _ids(store, "responsecode")) == (await _ids(store, "HTTPResponse")) == [4]


async def finds_words_of_any_script(store: Store) -> None:
    """A word is found as it was written, and without its accents, ligatures and case."""
    await store.create(a_record("a"))
    written = {
        "Die Straße und ihre Größe": "Straße strasse Größe grösse GROSSE",
        "Der Fußgänger ist groß": "Fußgänger fussganger groß gross",
        "ﬁle with a ligature…": "ﬁle file ligature",
        "İstanbul is a city": "İstanbul istanbul ISTANBUL",
        "ΣΊΣΥΦΟΣ pushes a stone": "ΣΊΣΥΦΟΣ Σίσυφος σισυφος",
        "ＡＢＣ１２３ is wide, ｶﾞﾗｽ is narrow": "ＡＢＣ１２３ abc123 ｶﾞﾗｽ ガラス",
        "a cafe\u0301 and a 3½-inch disk": "cafe\u0301 café cafe 3½",
        "한글은 decomposed \u1112\u1161\u11ab\u1100\u116e\u11a8": "한글은 한국",
        "計算機の設定も更新した。": "計算機 設定 更新",
    }
    await store.append(A, _entries([user(text) for text in written]))

    for number, words in enumerate(written.values(), 1):
        for word in words.split():
            assert number in await _ids(store, word), word


async def filters(store: Store) -> None:
    """Filters by role, tool, file and time hold for every hit."""
    await _talk(store)

    assert await _ids(store, "role:user") == [9, 1]
    assert await _ids(store, "tool:bash") == [3]
    assert await _ids(store, "file:login.py") == [7, 5]
    assert await _ids(store, "file:auth/login.py ttl tool:Edit") == [7]
    assert await _ids(store, "file:other/login.py") == []
    assert await _ids(store, "file:*.py ttl tool:Edit") == [7]
    assert await _ids(store, "file:auth/*.py") == await _ids(store, "file:LOG") == [7, 5]
    assert await _ids(store, "file:*.rs") == await _ids(store, "file:src") == []
    refused = tool_result(_RUN, "Permission denied: the user said no: use nox.", failed=True)
    quoted = tool_result(_RUN, "Permission denied: the user said no: use tox.")
    await store.append(A, _entries([refused, quoted], start=10))
    assert [hit.unit.text for hit in await _find(store, "nox role:user")] == ["use nox."]
    assert await _ids(store, "role:user") == [10, 9, 1]
    assert await _ids(store, "tox role:user") == []
    assert await _ids(store, "nox") == [10]
    assert await _ids(store, "role:user until:1970-01-01T00:16:45") == [1]
    assert await _ids(store, "role:user since:1970-01-01T00:16:45") == [10, 9]


async def ignores_boilerplate(store: Store) -> None:
    """System reminders and the results of Recall itself are not found."""
    await _talk(store)
    look = ToolCall(call_id=CallId("l"), name="Recall", arguments='{"query":"quokka"}')
    await store.append(
        A, _entries([assistant(look), tool_result(look, "quokka")], start=10, at=1_010.0)
    )

    assert await _ids(store, "zebra") == []
    assert await _ids(store, "quokka") == []


async def folds_near_identical_texts(store: Store) -> None:
    """Repeated output is one hit: the newest, which names the others."""
    await store.create(a_record("a"))
    texts = [f"ran {n} tests\nall passed\nin {n}.2 s\nplatform linux\nok" for n in range(1, 5)]
    await store.append(A, _entries([user(text) for text in texts]))

    (hit,) = await _find(store, "platform linux passed")

    assert (hit.unit.entry_id, hit.same) == (4, (3, 2, 1))


async def searches_one_session_or_all(store: Store) -> None:
    """A search looks in one session, in those of a folder, or in all; deleted ones are gone."""
    await _talk(store)
    await store.create(a_record("b"))
    await store.append(B, _entries([user("the login page")], at=5_000.0))

    assert {hit.session_id for hit in await _find(store, "login", None)} == {A, B}
    assert {hit.session_id for hit in await _find(store, "login", B)} == {B}
    elsewhere = await store.recall(parse_query("login"), cwd="/nowhere")
    assert elsewhere.hits == ()
    await expect_error(SessionNotFound, store.recall(parse_query("x"), session_id=SessionId("x")))
    await store.delete(A)
    assert {hit.session_id for hit in await _find(store, "login", None)} == {B}


async def finds_what_was_appended_last(store: Store) -> None:
    """An entry can be found as soon as it is appended, and only once."""
    await store.create(a_record("a"))
    for number in range(1, 140):
        await store.append(A, _entries([user(f"item{number} of the list")], start=number))
        if number % 23 == 0:
            assert await _ids(store, f"item{number}") == [number]

    found = await store.recall(parse_query("item139 gone"), session_id=A, skip=[139])
    assert (found.hits, found.missing) == ((), ("gone",))


RECALL_CHECKS: tuple[StoreCheck, ...] = (
    ranks_rare_words_first,
    chooses_the_best_of_many,
    finds_a_call_with_its_result,
    finds_names_and_phrases,
    finds_versions_and_inner_names,
    finds_words_of_any_script,
    filters,
    ignores_boilerplate,
    folds_near_identical_texts,
    searches_one_session_or_all,
    finds_what_was_appended_last,
)
