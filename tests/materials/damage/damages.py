"""How a file may be damaged: bytes that flip, go, come or stand twice."""

from hypothesis import strategies as st

PIECES = st.sampled_from([b'"', b",", b"\n", b"\r", b"\t", b"\0", b"\xff", b"\xef\xbb\xbf", b"[", b"null", b"1", b"-"])


@st.composite
def damages(draw):
    """A function from bytes to bytes; places are shares of the length."""
    kind = draw(st.sampled_from(["flip", "flip", "flip", "cut", "append", "prepend", "double", "drop", "write"]))
    place = draw(st.floats(0, 1, exclude_max=True))
    size = draw(st.integers(1, 40))
    bit = draw(st.integers(0, 7))
    extra = draw(st.binary(min_size=1, max_size=30) | PIECES)

    def damage(data):
        at = int(place * len(data))
        if kind == "flip":
            return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        return {
            "cut": data[:at],
            "append": data + extra,
            "prepend": extra + data,
            "double": data[: at + size] + data[at:],
            "drop": data[:at] + data[at + size :],
            "write": data[:at] + extra + data[at + len(extra) :],
        }[kind]

    return damage
