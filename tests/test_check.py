"""`make check` finds the tests of what changed, the nearest first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.check import OTHERS, ROOT, NearTests, name_of
from tests.conftest import LONGEST


@pytest.fixture(scope="module")
def tests() -> NearTests:
    return NearTests()


def test_a_test_file_comes_before_all_else(tests: NearTests) -> None:
    near = tests.near(["kcli/cli/verify.py", "tests/test_project.py"])
    assert near[0] == "tests/test_project.py"
    assert len(near) > 1


def test_a_module_has_the_tests_of_its_name_and_those_that_import_it(tests: NearTests) -> None:
    near = tests.near(["tests/check.py"])
    assert near == ["tests/test_check.py"]
    assert "tests/cli/test_produce.py" in tests.near(["kcli/cli/produce.py"])


def test_its_name_comes_before_its_room_and_that_before_others(tests: NearTests) -> None:
    near = tests.near(["formats/record_batch.py"])
    assert near[0] == "tests/formats/test_record_batch.py"
    rooms = [path.startswith("tests/formats/") for path in near]
    assert rooms == sorted(rooms, reverse=True)
    assert not rooms[-1]


def test_a_helper_of_the_tests_has_those_that_use_it(tests: NearTests) -> None:
    assert {"tests/test_docs.py", "tests/test_manuals.py"} <= set(tests.near(["tests/cli/options.py"]))


def test_a_module_that_nothing_imports_has_the_tests_that_name_it(tests: NearTests) -> None:
    assert tests.near(["kcli/broker/api/alter_partition.py"])


@pytest.mark.parametrize("path", ["README.md", "man/kcli-serve.1", "samples/demo.sh", ".ci/run", "pyproject.toml"])
def test_other_files_have_tests_too(path: str, tests: NearTests) -> None:
    assert tests.near([path])


def test_golden_data_has_the_tests_of_its_set(tests: NearTests) -> None:
    near = tests.near(["tests/golden/txn/data/t-txn-0/00000000000000000000.log"])
    assert "tests/broker/coordinators/test_transactions_golden.py" in near
    assert "tests/formats/test_varint.py" not in near


def test_a_file_that_no_test_knows_has_none(tests: NearTests) -> None:
    name = "no test " + "names this"
    assert tests.near([name]) == []


def test_what_is_named_is_there() -> None:
    assert [each for tests in OTHERS.values() for each in tests if not list(ROOT.glob(each))] == []


def test_names() -> None:
    assert [name_of(each) for each in ("formats/varint.py", "man/kcli.1")] == ["varint", "kcli.1"]


def test_when_the_time_is_over_no_test_begins(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): raise AssertionError\n")
    run = [sys.executable, "-m", "pytest", "-p", "tests.check", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    for ends, outcome in (("0", "1 skipped"), ("1e12", "1 failed")):
        done = subprocess.run(run, cwd=ROOT, env={"KCLI_CHECK_ENDS": ends}, capture_output=True, text=True, check=False)
        assert outcome in done.stdout, done.stdout + done.stderr


def test_the_nearest_stay_first() -> None:
    """Although tests/conftest.py would begin with the longest."""
    near, long = "tests/test_order.py", f"tests/{LONGEST[0]}"
    run = [sys.executable, "-m", "pytest", "-p", "tests.check", "--collect-only", "-q", near, long]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [line.split("::")[0] for line in done.stdout.splitlines() if "::" in line]
    assert list(dict.fromkeys(files)) == [near, long]
