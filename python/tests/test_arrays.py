"""Arrays cross as `.npy`, in both directions, without pickle."""

import pytest

import cellblock
from cellblock import Host

numpy = pytest.importorskip("numpy")


@pytest.fixture
def with_numpy(flavour):
    session = flavour.open(host=Host())
    if not session.run("import numpy").ok:
        pytest.skip("sessions have no numpy here: `cellblock setup` makes the environment that has it")
    return session


def test_an_array_goes_in_and_out(with_numpy):
    with_numpy["a"] = numpy.arange(6.0).reshape(2, 3)
    assert with_numpy.run("(a.shape, a.sum())").text in ("((2, 3), np.float64(15.0))", "((2, 3), 15.0)")
    with_numpy.run("b = a.T * 2")
    got = with_numpy.get("b", numpy.ndarray)
    assert got.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]
    assert sorted(variable.name for variable in with_numpy.vars()) == ["a", "b", "numpy"]
    assert with_numpy.files.list() == []


def test_objects_in_an_array_do_not_cross(with_numpy):
    with pytest.raises(cellblock.WrongValue, match="cannot be sent"):
        with_numpy["a"] = numpy.array([object()])
    with_numpy.run("b = numpy.array([object()])")
    with pytest.raises(cellblock.WrongValue, match="cannot cross"):
        with_numpy.get("b", numpy.ndarray)
