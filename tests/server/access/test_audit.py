"""The audit log stays small, private and readable."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.core.errors import ConfigError
from clew.server.access.audit import AuditLine, AuditLog
from tests.server.access.guarded_app import read_audit

pytestmark = pytest.mark.req("SRV-3")

_LINE = AuditLine(time="", method="GET", route="/api/v1/sessions", status=200, outcome="ok")


def test_a_full_log_begins_a_new_file_and_keeps_five(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, clock=lambda: 0.0, max_size=300)
    for number in range(100):
        log.write(msgspec.structs.replace(_LINE, session=str(number)))
    log.close()

    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [
        "audit.jsonl",
        *(f"audit.jsonl.{n}" for n in range(1, 6)),
    ]
    assert all(file.stat().st_size <= 300 for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert read_audit(path)[-1].session == "99"


def test_equal_refusals_are_counted_instead_of_repeated(tmp_path: Path) -> None:
    now = [0.0]
    log = AuditLog(tmp_path / "audit.jsonl", clock=lambda: now[0])
    refused = msgspec.structs.replace(_LINE, status=401, outcome="NotAuthenticated", address="::1")
    for _ in range(1_000):
        log.write_refusal(refused)
    log.write_refusal(msgspec.structs.replace(refused, address="::2"))
    now[0] = 61.0
    log.write_refusal(refused)
    log.close()

    lines = read_audit(tmp_path / "audit.jsonl")
    assert [(line.address, line.repeated) for line in lines] == [
        ("::1", 0),
        ("::2", 0),
        ("::1", 999),
    ]


def test_lines_hold_no_secret_and_no_line_break(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", clock=lambda: 0.0, secrets=("the-secret-token",))
    text = "/x\n{}/the-secret-token/sk-ant-api03-" + "a" * 90 + "\ud800"
    log.write(msgspec.structs.replace(_LINE, route=text))
    log.close()

    written = (tmp_path / "audit.jsonl").read_text()
    assert written.count("\n") == 1
    assert "the-secret-token" not in written
    assert "sk-ant-api03-aaa" not in written


def test_a_log_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()

    with pytest.raises(ConfigError, match="cannot be written"):
        AuditLog(tmp_path / "audit.jsonl", clock=lambda: 0.0)


def test_a_log_that_cannot_begin_a_new_file_touches_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, clock=lambda: 0.0, max_size=200)
    really_open = os.open

    def refuse(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "open", refuse)
        for number in range(5):
            log.write(msgspec.structs.replace(_LINE, session=str(number)))
        other = really_open(tmp_path / "sessions.db", os.O_RDWR | os.O_CREAT)
        log.write(_LINE)
    log.write(_LINE)
    log.close()

    assert os.fstat(other).st_size == 0
    os.close(other)
    assert [line.session for line in read_audit(tmp_path / "audit.jsonl.1")][:5] == list("01234")
    assert len(read_audit(path)) == 1
