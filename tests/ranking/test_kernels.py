"""Counting in a block of scores, compiled and by NumPy, against plain loops."""

import importlib.util
import itertools
import shutil
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from cxc_eccv import kernels
from cxc_eccv.kernels import NEAR_PER_PAIR

_kernels = getattr(kernels, "_kernels", None)
WITHOUT_COMPILER = "the package was built without a compiler"


def scores_with_ties(height, width, dtype=np.float32):
    random = np.random.default_rng(height + width)
    return random.integers(0, largest(width), (height, width + 16)).astype(dtype)[:, 8:-8]


def largest(width):
    return 40 + width // 10


def thresholds(n_pairs, width=0):
    random = np.random.default_rng(n_pairs)
    low = random.integers(0, largest(width), n_pairs).astype(np.float32)
    return low, low + random.integers(0, 2, n_pairs).astype(np.float32)


def expected(lines, segments, low, high):
    """Counts of one pair's scores by segment, and what lies between its thresholds if these differ."""
    counts = [
        [sum(score >= low for score in lines[a:b]), sum(score > high for score in lines[a:b])] for a, b in segments
    ]
    near = [(place, score) for place, score in enumerate(lines) if low < high and low <= score <= high]
    return counts, near


def check(found, lines, bounds, low, high, axis):
    segments = list(itertools.pairwise(bounds.tolist()))
    for pair, line in enumerate(lines):
        counts, near = expected(line.tolist(), segments, low[pair], high[pair])
        own = np.stack([found.at_least, found.above], axis=-1).take(pair, axis=axis)
        assert own.tolist() == counts
        mine = found.pairs == pair
        assert sorted(zip(found.indices[mine].tolist(), found.scores[mine].tolist(), strict=True)) == near
    assert found.complete


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [16, 200, 5_000])
def test_rows_are_counted_as_by_a_loop(width, dtype):
    block, (low, high) = scores_with_ties(9, width, dtype), thresholds(70, width)
    rows = np.sort(np.random.default_rng(1).integers(0, 9, 70))
    bounds = np.array([0, width // 16 * 8, width])
    check(kernels.row_counts(block, rows, low, high, bounds), block[rows], bounds, low, high, axis=0)


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("height", [1, 16, 300])
@pytest.mark.parametrize("pairs", ["some columns", "one each", "many each", "uneven"])
def test_columns_are_counted_as_by_a_loop(height, pairs):
    random = np.random.default_rng(1)
    columns = {
        "some columns": np.sort(random.choice(90, 70)),
        "one each": np.arange(70),
        "many each": np.sort(random.choice(9, 70)),
        "uneven": np.repeat([3, 5], [6, 5]),
    }[pairs]
    block, (low, high) = scores_with_ties(height, 90), thresholds(columns.size)
    bounds = np.array([0, *({height // 3} - {0}), height])
    check(kernels.column_counts(block, columns, low, high, bounds), block.T[columns], bounds, low, high, axis=1)


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("width", [1, 7, 16, 17, 40])
def test_every_column_of_a_block_is_counted(width):
    columns = np.repeat(np.arange(width), np.random.default_rng(width).integers(0, 4, width))
    block, (low, high) = scores_with_ties(70, width), thresholds(columns.size)
    bounds = np.array([0, 33, 70])
    check(kernels.column_counts(block, columns, low, high, bounds), block.T[columns], bounds, low, high, axis=1)


@pytest.fixture(scope="module")
def plain_kernels(tmp_path_factory):
    """The kernels as compilers make them that know C11 and nothing more."""
    compiler = shutil.which("cc")
    include = sysconfig.get_path("include")
    if compiler is None or not Path(include, "Python.h").exists():
        pytest.skip("no C compiler, or no headers of Python")
    source = Path(kernels.__file__).parent / "_kernels.c"
    target = tmp_path_factory.mktemp("plain") / "_kernels.abi3.so"
    strict = ["-std=c11", "-pedantic-errors", "-DPLAIN_C", "-O2", "-shared", "-fPIC", "-isystem", include]
    subprocess.run([compiler, *strict, source, "-o", target, "-lm"], check=True)
    spec = importlib.util.spec_from_file_location("_kernels", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
def test_plain_c_counts_as_vectors_do(plain_kernels, monkeypatch):
    assert plain_kernels.count_columns is not _kernels.count_columns
    monkeypatch.setattr(_kernels, "count_columns", plain_kernels.count_columns)
    monkeypatch.setattr(_kernels, "reach_bounds", plain_kernels.reach_bounds)
    for height, pairs in itertools.product([1, 300], ["some columns", "one each", "many each", "uneven"]):
        test_columns_are_counted_as_by_a_loop(height, pairs)
    for width in (1, 7, 16, 17, 40):
        test_every_column_of_a_block_is_counted(width)
    for width, height in ((30, 60), (64, 60), (700, 600)):
        test_scores_that_reach_bounds_are_kept_by_column(width, height)


@pytest.mark.usefixtures("counted_by")
def test_scores_between_thresholds_may_exceed_the_buffer():
    block = np.zeros((50, 64), np.float32)
    zero = np.zeros(64, np.float32)
    one = np.ones(64, np.float32)
    found = kernels.column_counts(block, np.arange(64), zero, one, np.array([0, 50]))
    assert (found.complete, found.scores.size) == (True, 50 * 64)
    assert found.at_least.tolist() == [[50] * 64]


@pytest.mark.usefixtures("counted_by")
def test_no_pairs_are_no_counts():
    none = np.empty(0, dtype=np.int64)
    block = scores_with_ties(4, 16)
    low, high = thresholds(0)
    assert kernels.row_counts(block, none, low, high, np.array([0, 8, 16])).at_least.shape == (0, 2)
    assert kernels.column_counts(block, none, low, high, np.array([0, 4])).above.shape == (1, 0)


@pytest.mark.usefixtures("counted_by")
def test_too_many_scores_between_thresholds_are_not_kept():
    block = np.zeros((NEAR_PER_PAIR + 1, 160), np.float32)
    zero = np.float32([0])
    one = np.float32([1])
    columns = kernels.column_counts(block, np.array([0]), zero, one, np.array([0, len(block)]))
    rows = kernels.row_counts(block, np.array([0]), zero, one, np.array([0, 160]))
    assert (columns.complete, rows.complete) == (False, False)
    assert kernels.column_counts(block[1:], np.array([0]), zero, one, np.array([0, len(block) - 1])).complete
    assert kernels.row_counts(block, np.array([0]), zero, zero, np.array([0, 160])).complete


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
@pytest.mark.parametrize("width", [1, 7, 8, 100, 128, 129, 257, 512, 1000])
def test_compiled_unit_vectors_equal_numpys_bits(width, monkeypatch):
    random = np.random.default_rng(width)
    vectors = (random.standard_normal((60, width)) * random.choice([1e-20, 1, 1e10], (60, 1))).astype(np.float32)
    vectors[3], vectors[4, ::2] = 0, -0.0
    places = random.integers(0, 60, 50)
    targets = random.permutation(70)[:50]
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(kernels, "COMPILED", compiled)
        out = np.zeros((70, width), np.float32)
        lengths = kernels.unit_vectors(vectors, places, targets, out)
        assert not np.signbit(out[out == 0]).any()
        found.append((lengths.tobytes(), out.tobytes()))
    assert found[0] == found[1]


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("count", [1, 2, 37, 1_001, 32_768, 32_769])
def test_clusters_are_drawn_as_numpy_draws_them(count):
    times = kernels.times_drawn(np.random.default_rng(3), 9, count)
    kind = np.uint16 if count <= 2**15 else np.int64
    draws = np.random.default_rng(3).integers(count, size=(9, count), dtype=kind)
    counters = [Counter(row) for row in draws.tolist()]
    assert times.tolist() == [[counter[place] for place in range(count)] for counter in counters]


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("largest", [0, 3, 40_000, 0.5])
@pytest.mark.parametrize("count", [1, 31, 300])
def test_drawn_values_are_added_as_by_a_loop(count, largest):
    random = np.random.default_rng(count)
    times = kernels.times_drawn(random, 150, count)
    values = (random.integers(-3, 3, (2, count)) * largest).astype(float)
    expected = [[sum(a * b for a, b in zip(row, of, strict=True)) for of in times.tolist()] for row in values.tolist()]
    assert kernels.drawn_sums(times, values).tolist() == expected
    assert kernels.drawn_sums(times, values[1]).tolist() == expected[1]


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("n_members", [0, 1, 90])
def test_places_of_ranks_are_those_of_repeated_members(n_members):
    random = np.random.default_rng(n_members)
    times = kernels.times_drawn(random, 40, 30)
    members = random.integers(0, 30, n_members)
    below = random.integers(0, 30, 40)
    ranks = np.stack([low := random.integers(0, 130, 40), low + random.integers(0, 2, 40)])
    repeated = [
        [-1] * start + np.repeat(np.arange(n_members), own[members]).tolist()
        for start, own in zip(below.tolist(), times, strict=True)
    ]
    expected = [
        [row[rank] if rank < len(row) else n_members for row, rank in zip(repeated, side, strict=True)]
        for side in ranks.tolist()
    ]
    places = kernels.drawn_places(times, members, below, ranks)
    assert np.where(ranks < below, -1, places).tolist() == expected


def rows_of_queries(sizes):
    random = np.random.default_rng(len(sizes))
    ends = np.append(0, np.cumsum(sizes))
    return random.permutation(ends[-1]), ends


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("n_queries", [2, 4, 5, 257, 10_000, 10_001, 25_000])
def test_rows_are_drawn_as_numpy_draws_them(n_queries):
    """Half of the queries by Floyd's algorithm or by a shuffle, and the second call goes on where the first ended."""
    rows, ends = rows_of_queries(np.random.default_rng(0).integers(1, 6, n_queries))
    mine = np.random.default_rng(7)
    random = np.random.default_rng(7)
    half = n_queries // 2
    for samples in (3, 2):
        for drawn in kernels.drawn_rows(mine, rows, ends, samples):
            queries = random.choice(n_queries, half, replace=False, shuffle=False).tolist()
            parts = random.random(half).tolist()
            own = [rows[ends[q] : ends[q + 1]] for q in queries]
            assert drawn.tolist() == [of[int(part * of.size)] for of, part in zip(own, parts, strict=True)]
    assert mine.bit_generator.state == random.bit_generator.state


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("n_levels", [(2, 2), (5, 40), (1, 300)])
@pytest.mark.parametrize("size", [1, 2, 17, 300])
def test_products_of_ranks_are_those_of_average_ranks(n_levels, size):
    random = np.random.default_rng(size)
    codes = np.stack([random.integers(0, n, 300) for n in n_levels], axis=1, dtype=np.int32)
    rows = random.integers(0, 300, (4, size))
    for own, chosen in zip(kernels.rank_products(codes, n_levels, rows).tolist(), rows, strict=True):
        first, second = (2 * rankdata(codes[chosen, side]) - (size + 1) for side in range(2))
        assert own == [(first**2).sum(), (second**2).sum(), (first * second).sum()]


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("n_levels", [1, 2, 5, 1_000])
@pytest.mark.parametrize("width", [2, 3, 50, 300])
def test_correlations_of_rows_are_kendalls_tau_b(n_levels, width):
    random = np.random.default_rng(width)
    scores = random.integers(n_levels, size=(2, 12, width))
    scores[1, ::3] = scores[0, ::3] + random.integers(2, size=(4, width))
    levels, others = (
        np.stack([np.unique(row, return_inverse=True)[1] for row in rows]).astype(np.int32) for rows in scores
    )
    found = kernels.row_correlations(levels, others)
    for value, one, other in zip(found.tolist(), *scores, strict=True):
        signs, other_signs = (np.sign(row[:, None] - row) for row in (one, other))
        agreed = (signs * other_signs).sum()
        untied = np.count_nonzero(signs), np.count_nonzero(other_signs)
        if all(untied):
            assert value == pytest.approx(agreed / (untied[0] * untied[1]) ** 0.5, abs=1e-12)
        else:
            assert np.isnan(value)


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
def test_compiled_sums_of_rank_products_do_not_overflow():
    """At the most rows that are counted in C; NumPy adds more in floating point."""
    n = kernels.MOST_RANKED
    codes = np.stack([np.arange(n), np.arange(n)[::-1]], axis=1, dtype=np.int32)
    squares = (n**3 - n) / 3
    assert kernels.rank_products(codes, (n, n), np.arange(n)[None]).tolist() == [[squares, squares, -squares]]
    more = np.arange(n + 1)[None].clip(max=n - 1)
    assert kernels.rank_products(codes, (n, n), more)[0, 0] == pytest.approx(squares, rel=1e-4)


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
def test_compiled_draws_refuse_what_does_not_fit():
    random = np.random.default_rng(0)
    times = np.zeros((2, 3), np.int16)
    with pytest.raises(ValueError, match="Capsule"):
        _kernels.draw_times(None, 3, times)
    with pytest.raises(ValueError, match="Capsule"):
        _kernels.draw_rows(None, np.arange(4), np.arange(5), np.empty((1, 2), np.int64))
    sums = np.empty((1, 2))
    two = np.zeros((2, 2), np.int64)
    misfits = [
        *((_kernels.draw_times, random.bit_generator.capsule, size, times) for size in (0, -1, 4, 40_000)),
        *(
            (_kernels.draw_rows, random.bit_generator.capsule, np.arange(4), np.array(ends), np.empty(n, np.int64))
            for ends, n in (
                ([0, 1, 2, 3, 5], 2), ([0, 1, 1, 3, 4], 2), ([-1, 1, 2, 3, 4], 2), ([0, 1], 2), ([0, 1, 2, 3, 4], 3),
            )
        ),
        (_kernels.sum_drawn, times, np.zeros((1, 4), np.int16), 3, sums),
        (_kernels.sum_drawn, times, np.zeros((1, 3), np.int16), 0, sums),
        (_kernels.sum_drawn, times, np.zeros((2, 3), np.int16), 3, sums),
        *((_kernels.find_ranks, times, 3, np.array([place]), two[0], two, two.copy()) for place in (-1, 3)),
        (_kernels.find_ranks, times, 2, np.array([0]), two[0], two, two.copy()),
        (_kernels.find_ranks, times, 3, np.array([0]), two[0], two[:1], two.copy()),
        (_kernels.find_ranks, times, 3, np.array([0]), two[0], two, two[0].copy()),
        *(
            (_kernels.correlate_ranks, np.array(codes, np.int32), 2, 2, np.array(rows), np.empty((n, 3)))
            for codes, rows, n in (
                ([[0, 2]], [0], 1), ([[2, 0]], [0], 1), ([[-1, 0]], [0], 1), ([[0, 0]], [1], 1), ([[0, 0]], [-1], 1),
                ([[0, 0]], [0, 0, 0], 2), ([[0, 0]], [0], 0),
            )
        ),
        (_kernels.correlate_ranks, np.zeros((1, 2), np.int32), 0, 1, np.array([0]), np.empty((1, 3))),
        *(
            (_kernels.count_orders, np.int32(first), np.int32(second), n, np.empty((1, 4), np.int64))
            for first, second, n in (
                ([0, 2], [0, 1], 2), ([0, 1], [-1, 1], 2), ([0, 1], [0], 2), ([0, 1], [0, 1], 1), ([0], [0], 0),
            )
        ),
    ]  # fmt: skip
    for function, *arguments in misfits:
        with pytest.raises(ValueError, match="do not fit"):
            function(*arguments)


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
def test_compiled_functions_refuse_vectors_that_are_not_there():
    block = np.ones((4, 16), np.float32)
    for row in (-1, 4):
        with pytest.raises(ValueError, match="outside"):
            kernels.pair_products(block, block, np.array([row]), np.array([0]))
    for place, target in ((2, 0), (0, 2), (-1, 0)):
        with pytest.raises(ValueError, match="do not fit"):
            kernels.unit_vectors(
                np.ones((2, 4), np.float32), np.array([place]), np.array([target]), np.ones((2, 4), np.float32)
            )


def matches_of_a_row(scores, items, near, zetas, depths):
    """By sorting: the items of a row from the best, and what ties with the last of each look."""
    own = sorted(((score, item) for score, item in zip(scores, items, strict=True) if item >= 0), reverse=True)
    for zeta, depth in zip(zetas, depths, strict=True):
        lowest = own[depth - 1][0]
        reached = [(score, near[item] <= zeta) for score, item in own if score >= lowest]
        tied = [matches for score, matches in reached if score == lowest]
        yield lowest, len(reached), sum(matches for _, matches in reached), len(tied), sum(tied)


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("n_levels", [1, 40, 100_000])
@pytest.mark.parametrize("width", [3, 100, 3_000])
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matches_are_counted_as_by_sorting(n_levels, width, listed, dtype):
    random = np.random.default_rng(width + n_levels)
    height = 7
    n_classes = 9
    zetas = [0, 2, 5, 2]
    scores = (random.integers(0, n_levels, (height, width + 5)).astype(dtype) - n_levels // 2)[:, 2:-3]
    items = np.array([random.permutation(width) for _ in range(height)]) if listed else random.permutation(width)
    items = np.where(random.random(items.shape) < 0.1, -1, items)
    items[..., :2] = [0, 1]  # some are left
    classes = random.integers(0, n_classes, width)
    distances = random.integers(0, 9, (n_classes, n_classes), np.uint8)
    rows = random.permutation(height)[:5]
    of_queries = random.integers(0, n_classes, rows.size)
    of_rows = np.broadcast_to(items, scores.shape)[rows]
    most = (of_rows >= 0).sum(axis=1)
    depths = 1 + (random.random((rows.size, 4)) ** 2 * most[:, None]).astype(int)
    depths[0] = most[0]
    found = kernels.match_counts(scores, rows, items, classes, distances, of_queries, zetas, depths)
    for row, place in enumerate(rows):
        near = distances[of_queries[row], classes]
        for look, expected in enumerate(matches_of_a_row(scores[place], of_rows[row], near, zetas, depths[row])):
            fields = found.lowest, found.at_least, found.matches, found.tied, found.tied_matches
            assert tuple(field[row, look] for field in fields) == expected


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("row", [-2, 1])
def test_matches_of_rows_outside_the_scores_are_refused(row):
    scores = np.zeros((1, 3), np.float32)
    items = np.arange(3)
    zero = np.zeros(1, int)
    with pytest.raises((ValueError, IndexError)):
        kernels.match_counts(
            scores, np.array([row]), items, np.zeros(3, int), np.zeros((1, 1), np.uint8), zero, [0], np.array([[1]])
        )


@pytest.mark.usefixtures("counted_by")
def test_rows_with_few_items_lack_lowest_scores():
    scores = np.float32([[0.3, 0.2, -np.inf]])
    items = np.array([[0, 1, -1]])
    classes = np.zeros(2, int)
    apart = np.zeros((1, 1), np.uint8)
    depths = np.array([[3, 2]])
    found = kernels.match_counts(scores, np.array([0]), items, classes, apart, np.array([0]), [0, 0], depths)
    assert found.lowest.tolist() == [[-np.inf, np.float32(0.2)]]


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
@pytest.mark.parametrize("width", [2, 30, 16, 300])
@pytest.mark.parametrize("height", [60, 600])
def test_scores_that_reach_bounds_are_kept_by_column(width, height):
    block = scores_with_ties(height, width)
    random = np.random.default_rng(0)
    bounds = random.integers(0, 45, width).astype(np.float32)
    items = random.integers(-1, 99, height)
    bounds[0] = np.inf
    # Of the second half more reach the bounds than were expected.
    halves = [
        kernels.KeptColumns(block[:40], items[:40], bounds, 1),
        kernels.KeptColumns(block[40:], items[40:], bounds, 0),
    ]
    columns = random.permutation(width)
    room = int(sum(kept.sizes for kept in halves).max()) + 1
    scores = np.full((width, room), -1, np.float32)
    places = np.full((width, room), -1, np.int32)
    filled = np.zeros(width, np.int64)
    for kept in halves:
        kept.spread(columns, filled, scores, places)
    for row, column in enumerate(columns):
        own = (block[:, column] >= bounds[column]) & (items >= 0)
        assert scores[row, : filled[row]].tolist() == block[own, column].tolist()
        assert places[row, : filled[row]].tolist() == items[own].tolist()
    with pytest.raises(ValueError, match="do not fit"):
        halves[0].spread(columns, filled, scores[:, :0].copy(), places[:, :0].copy())


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
@pytest.mark.parametrize("width", [2, 30])
def test_scores_at_depths_of_columns_equal_a_sort(width):
    block = scores_with_ties(60, width)
    random = np.random.default_rng(0)
    rows = random.permutation(60)[:50]
    depths = random.integers(0, 60, width)
    depths[:2] = 0, 51
    ordered = np.pad(-np.sort(-block[rows], axis=0), ((1, 10), (0, 0)), constant_values=-np.inf)
    ordered[0] = np.inf
    assert kernels.scores_of_columns(block, rows, depths).tolist() == ordered[depths, np.arange(width)].tolist()
    for wrong in ((rows + 20, depths), (rows - 1, depths), (rows, depths[1:])):
        with pytest.raises(ValueError, match="do not fit"):
            kernels.scores_of_columns(block, *wrong)


@pytest.mark.usefixtures("counted_by")
def test_products_are_those_of_exact_arithmetic():
    random = np.random.default_rng(0)
    queries, items = (random.integers(-1000, 1000, (5, 19)).astype(np.float32) for _ in range(2))
    rows, columns = random.integers(0, 5, (2, 80))
    sums, magnitudes = kernels.pair_products(queries, items, rows, columns)
    pairs = [
        [int(one) * int(other) for one, other in zip(queries[row], items[column], strict=True)]
        for row, column in zip(rows, columns, strict=True)
    ]
    assert sums.tolist() == [sum(products) for products in pairs]
    assert magnitudes.tolist() == [sum(map(abs, products)) for products in pairs]


def task(**changes):
    """Arguments of the compiled counting: 4 x 16 scores, 2 pairs, 1 segment."""
    arrays = {
        "scores": np.zeros((4, 16), np.float32),
        "places": np.array([0, 3]),
        "low": np.zeros(2, np.float32),
        "high": np.zeros(2, np.float32),
        "bounds": np.array([0, 4]),
        "reached": np.zeros(2, np.int64),
        "beyond": np.zeros(2, np.int64),
        "near_pairs": np.zeros(1, np.int64),
        "near_places": np.zeros(1, np.int64),
        "near_scores": np.zeros(1, np.float32),
    }
    return [*{**arrays, **changes}.values()]


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
@pytest.mark.parametrize("count", ["count_rows", "count_columns"])
@pytest.mark.parametrize(
    "changes",
    [
        {"scores": np.zeros(64, np.float32)},
        {"scores": np.zeros((4, 16), np.float64)},
        {"scores": np.zeros((4, 32), np.float32)[:, ::2]},
        {"bounds": np.array([0]), "reached": np.zeros(0, np.int64), "beyond": np.zeros(0, np.int64)},
        *({name: np.zeros(size, np.float32)} for name in ("low", "high") for size in (1, 3)),
        *({name: np.zeros(size, np.int64)} for name in ("reached", "beyond") for size in (1, 3)),
        {"near_places": np.zeros(0, np.int64)},
        {"near_scores": np.zeros(0, np.float32)},
        {"places": np.array([0, 16])},
        {"places": np.array([-1, 3])},
        {"bounds": np.array([0, 17])},
        {"bounds": np.array([-1, 4])},
    ],
    ids=lambda changes: ",".join(f"{name}{array.shape}{array.dtype.char}" for name, array in changes.items()),
)
def test_arrays_that_do_not_fit_are_refused(count, changes):
    counted = getattr(_kernels, count)
    assert counted(*task()) == 0
    with pytest.raises(ValueError, match="the arrays do not fit each other"):
        counted(*task(**changes))


@pytest.mark.skipif(not kernels.COMPILED, reason=WITHOUT_COMPILER)
def test_places_and_bounds_lie_within_their_own_axis():
    tall = {"scores": np.zeros((16, 4), np.float32)}
    for count, own, other in (("count_rows", 15, 3), ("count_columns", 3, 15)):
        counted = getattr(_kernels, count)
        places = np.array([0, own])
        bounds = np.array([0, other + 1])
        assert counted(*task(**tall, places=places, bounds=bounds)) == 0
        for changes in ({"places": np.array([0, own + 1])}, {"bounds": np.array([0, other + 2])}):
            with pytest.raises(ValueError, match="a place lies outside the scores"):
                counted(*task(**tall, **{"places": places, "bounds": bounds, **changes}))
