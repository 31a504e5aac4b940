import prod
import pytest


@pytest.mark.xfail(reason="known")
def test_xfail():
    assert prod.add(1, 1) == 3
