"""Functions that a pipeline file names, found and looked at."""

from __future__ import annotations

import pytest

from ottla.pipelines.functions import check_takes, load_function
from ottla.pipelines.spec_keys import SpecError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "steps.py"
    path.write_text("def twice(frame):\n    return frame * 2\n")
    return path


def test_functions_of_files_and_modules(file):
    assert load_function(f"{file}:twice")(2) == 4
    assert load_function("json:dumps")(1) == "1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def once(frame): ...", "has no function 'twice'"),
        ("twice = 2", "has no function 'twice'"),
        ("def twice(frame)\n    ...", "SyntaxError: expected ':'"),
        ("import no_such", "ModuleNotFoundError: No module named 'no_such'"),
        ("raise SystemExit", "SystemExit: no more is known"),
        ("raise ValueError('one\\ntwo')", "ValueError: one$"),
    ],
)
def test_what_a_file_lacks_is_one_line(file, text, words):
    file.write_text(text)
    with pytest.raises(SpecError, match=words):
        load_function(f"{file}:twice")


def test_files_and_modules_that_are_not_there(tmp_path):
    with pytest.raises(SpecError, match=f"^function: there is no file {tmp_path}/none.py$"):
        load_function(f"{tmp_path}/none.py:f")
    with pytest.raises(SpecError, match="No module named 'no'"):
        load_function("no.such.module:f")


def test_a_function_takes_a_frame_for_each_topic():
    check_takes(lambda one, two=None: one, "m:f", 2)
    check_takes(print, "m:f", 9)
    with pytest.raises(SpecError, match=r"m:f is called with 3 DataFrames, .* takes \(one, two\)"):
        check_takes(lambda one, two: one, "m:f", 3)
