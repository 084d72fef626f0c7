"""Files of JSON and Parquet with one value replaced or some bytes damaged, and what reading them may come to."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cxc_eccv.errors import CxcEccvError

BOUNDED = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

STRANGE = st.sampled_from(
    [None, True, False, -1, 0, 2**63, 10**40, 0.5, 1e300, "", "\x1b", "7" * 5_000, "x" * 20_000, [], [[]], {}, [None]]
) | st.recursive(st.integers() | st.text(max_size=3) | st.none(), lambda inner: st.lists(inner, max_size=2))
PIECES = st.sampled_from(
    [b"null\n", b"[" * 900, b"{", b'"', b"\n", b"\0", b"\xff", b"\\ud800", b"NaN", b"9" * 5_000, b""]
)
DAMAGE = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7), PIECES)


def places_of(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_of(inner, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def check(read, path, data):
    """Read a file, or have it refused by a message that people can read."""
    path.write_bytes(data)
    message = path.name
    try:
        read(path)
    except CxcEccvError as error:
        message = str(error)
    assert path.name in message
    assert len(message) < 12_000
    assert message.replace("\n", "").isprintable()


def damaged(data, place, bit, piece):
    at = int(place * len(data))
    return data[:at] + (piece or bytes([data[at] ^ 1 << bit])) + data[at + (not piece) :]


def check_json(content, read, path, data, new, damage):
    """Change a value of JSON, or of one line of two where the file has lines; then read it."""
    changed = replaced(content, data.draw(st.sampled_from(list(places_of(content)))), new)
    rows = [json.dumps(row) for row in ((content, changed) if path.suffix == ".jsonl" else (changed,))]
    text = "\n".join(rows).encode()
    check(read, path, damaged(text, *damage) if damage else text)


def check_parquet(rows, read, path, data, new, damage):
    """Change a column of a table; then read it."""
    key = data.draw(st.sampled_from(list(rows[0])))
    try:
        table = pa.Table.from_pylist([row | {key: new} for row in rows])
        pq.write_table(table, path, write_page_checksum=True)
    except (pa.ArrowException, OverflowError):  # no column can hold it
        return
    check(read, path, damaged(path.read_bytes(), *damage) if damage else path.read_bytes())
