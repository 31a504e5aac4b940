import pytest
pytest.importorskip("no_such_module")


def test_never_runs():
    pass
