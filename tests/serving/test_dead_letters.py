"""The box: what is put in it stays, until it is answered or thrown away."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_core.errors import TickscopeError
from scheduler_core.serving.attempt import FailedAttempt
from scheduler_core.serving.dead_letters import FILE, DeadLetters
from tests.serving.helpers import create_ask

FAILED = (FailedAttempt(1, 10.0, 11.0, "first"), FailedAttempt(2, 12.0, 13.0, "second"))


def test_a_letter_comes_back_as_it_was_put_in_also_by_another_box(tmp_path: Path) -> None:
    first = DeadLetters(tmp_path)
    ask = create_ask(5, endpoint="/v1/completions", body={"prompt": "é\u0000 '; DROP TABLE letters; --"})
    assert first.put(ask, FAILED) == "1"
    second = DeadLetters(tmp_path)
    (letter,) = second.letters()
    assert (letter.id, letter.endpoint, letter.body) == ("1", ask.endpoint, ask.body)
    assert (letter.prompt_tokens, letter.attempts, letter.reason) == (5, FAILED, "second")
    first.close()
    second.close()


def test_a_letter_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path;"
        "from scheduler_core.serving.dead_letters import DeadLetters;"
        "from tests.serving.test_dead_letters import FAILED;"
        "from tests.serving.helpers import create_ask;"
        "DeadLetters(Path(sys.argv[1])).put(create_ask(), FAILED); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    box = DeadLetters(tmp_path)
    assert len(box) == 1
    box.close()


def test_ids_are_not_used_again(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)
    box.put(create_ask(), FAILED)
    assert box.purge() == 1
    assert box.put(create_ask(), FAILED) == "2"
    box.close()


def test_a_full_box_takes_no_more(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path, max_letters=1)
    box.put(create_ask(), FAILED)
    with pytest.raises(TickscopeError, match="1 dead letters already; replay or purge"):
        box.put(create_ask(), FAILED)
    box.close()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path / "state")
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state" / FILE).stat().st_mode) == 0o600
    box.close()


def test_a_file_that_is_no_box_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"x" * 5_000)
    with pytest.raises(TickscopeError, match="cannot be opened"):
        DeadLetters(tmp_path)


def test_an_unknown_letter_is_named(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)
    with pytest.raises(TickscopeError, match="no dead letter '7'"):
        box.letter("7")
    box.close()
