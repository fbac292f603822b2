"""Arrays cross as `.npy`, in both directions, without pickle."""

import io
import itertools

import pytest

import cellblock
from cellblock import Host
from cellblock.arrays import from_bytes

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


def npy(header: str) -> bytes:
    """A file of numpy with this header, and without data."""
    return b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header.encode() + b"\n"


HOSTILE_ARRAYS = {
    "nothing": b"",
    "an archive": b"PK\x05\x06" + bytes(18),
    "a pickle": b"\x80\x04]\x94K\x01a.",
    "terabytes": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
    "a thousand million items without a byte": npy("{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000,)}"),
    "brackets": npy("(" * 500),
}


@pytest.mark.parametrize("contents", HOSTILE_ARRAYS.values(), ids=HOSTILE_ARRAYS)
def test_a_file_that_is_no_array_is_refused(contents):
    with pytest.raises(cellblock.WrongValue, match="is no ndarray"):
        from_bytes(contents, numpy.ndarray)


def table_file(table) -> bytearray:
    """A table as the file that a session writes."""
    buffer = io.BytesIO()
    pytest.importorskip("pyarrow.feather").write_feather(table, buffer, compression="uncompressed")
    return bytearray(buffer.getvalue())


def test_an_offset_of_a_table_that_leads_out_of_it_is_refused():
    pyarrow = pytest.importorskip("pyarrow")
    contents = table_file(pyarrow.table({"text": ["one", "four", "sevens"]}))
    offsets = (0).to_bytes(4, "little") + (3).to_bytes(4, "little") + (7).to_bytes(4, "little") + (13).to_bytes(4, "little")
    assert contents.count(offsets) == 1
    place = contents.index(offsets)
    contents[place + 12 : place + 16] = (2**30).to_bytes(4, "little")
    with pytest.raises(cellblock.WrongValue, match="is no Table"):
        from_bytes(bytes(contents), pyarrow.Table)


def test_a_table_of_rows_that_take_no_byte_is_refused():
    pyarrow = pytest.importorskip("pyarrow")
    contents = table_file(pyarrow.table({"nothing": pyarrow.nulls(2_000_000_000)}))
    with pytest.raises(cellblock.WrongValue, match="more than its data"):
        from_bytes(bytes(contents), pyarrow.Table)


def test_a_table_that_is_compressed_is_refused():
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather

    tables = [pyarrow.table({"a": [0] * 1000}), pyarrow.table({"a": pyarrow.array(["x" * 1000]).dictionary_encode()})]
    for table, codec in itertools.product(tables, ["zstd", "lz4"]):
        buffer = io.BytesIO()
        feather.write_feather(table, buffer, compression=codec)
        with pytest.raises(cellblock.WrongValue, match="it is compressed"):
            from_bytes(buffer.getvalue(), pyarrow.Table)


def swelling_tables(pyarrow) -> dict:
    """Small tables that become large."""
    rows = pyarrow.array([0] * 100_000, pyarrow.int32())
    fields = pyarrow.struct([(f"f{number}", pyarrow.null()) for number in range(200)])
    empty = pyarrow.array([{}], fields)
    tables = {
        "fields without a value": pyarrow.table({"a": empty.take(rows)}),
        "lists without a value": pyarrow.table({"a": pyarrow.FixedSizeListArray.from_arrays(pyarrow.nulls(20_000_000), 200)}),
    }
    if hasattr(pyarrow, "RunEndEncodedArray"):
        run = pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([20_000_000], pyarrow.int32()), pyarrow.array(["x"]))
        tables["a run of one value"] = pyarrow.table({"a": run})
    return tables


def test_a_table_of_more_values_than_its_data_is_refused():
    pyarrow = pytest.importorskip("pyarrow")
    for what, table in swelling_tables(pyarrow).items():
        contents = bytes(table_file(table))
        assert len(contents) < 1_000_000, what
        with pytest.raises(cellblock.WrongValue, match="more than its data"):
            from_bytes(contents, pyarrow.Table)


def test_views_that_show_the_same_bytes_again_and_again_do_not_go_to_pandas():
    pyarrow = pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    if not hasattr(pyarrow, "string_view"):
        pytest.skip("this pyarrow has no views")
    count, length = 1000, 1_000_000
    views = b"".join(
        (length - number).to_bytes(4, "little") + b"xxxx" + bytes(4) + number.to_bytes(4, "little") for number in range(count)
    )
    buffers = [None, pyarrow.py_buffer(views), pyarrow.py_buffer(b"x" * length)]
    text = pyarrow.table({"a": pyarrow.Array.from_buffers(pyarrow.string_view(), count, buffers)})
    starts, sizes = pyarrow.array([0] * count, pyarrow.int32()), pyarrow.array([100_000] * count, pyarrow.int32())
    lists = pyarrow.table({"a": pyarrow.ListViewArray.from_arrays(starts, sizes, pyarrow.array([0] * 100_000))})
    for table in [text, lists]:
        contents = bytes(table_file(table))
        assert from_bytes(contents, pyarrow.Table).num_rows == count
        with pytest.raises(cellblock.WrongValue, match="more than its data"):
            from_bytes(contents, pandas.DataFrame)


def test_tables_of_every_kind_of_column_are_read():
    pyarrow = pytest.importorskip("pyarrow")
    columns = {
        "number": [1, None],
        "text": ["one", None],
        "list": [[1, 2], []],
        "struct": [{"x": 1, "y": "a"}, None],
        "nothing": [None, None],
        "category": pyarrow.array(["a", "b"]).dictionary_encode(),
        "map": pyarrow.array([[("k", 1)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    }
    if hasattr(pyarrow, "string_view"):
        columns["views"] = pyarrow.array(["a short one", "one that is longer than twelve bytes"], pyarrow.string_view())
        columns["list views"] = pyarrow.array([[1, 2], [3]], pyarrow.list_view(pyarrow.int64()))
    table = pyarrow.table(columns)
    assert from_bytes(bytes(table_file(table)), pyarrow.Table).equals(table)
    assert from_bytes(bytes(table_file(table.slice(0, 0))), pyarrow.Table).num_rows == 0


def test_a_pyarrow_that_unpickles_what_it_reads_is_refused(monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    contents = table_file(pyarrow.table({"a": [1]}))
    assert from_bytes(bytes(contents), pyarrow.Table).to_pydict() == {"a": [1]}
    monkeypatch.setattr(pyarrow, "__version__", "14.0.0")
    with pytest.raises(cellblock.WrongValue, match=r"14\.0\.1"):
        from_bytes(bytes(contents), pyarrow.Table)
