/*
 * How many scores of a block reach thresholds: one pass over the scores, where NumPy needs two comparisons and two sums.
 * What these functions count, and what counts in their place where they were not compiled, is in kernels.py.
 */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* GCC and Clang have vectors and bit scans of their own; for other compilers, MSVC above all, C11 says the same. */
#if defined(__GNUC__) && !defined(PLAIN_C)
#define HAS_VECTORS
#endif

/* Where that is possible the loops are compiled three times, and the processor's own version is chosen on loading. */
#if defined(HAS_VECTORS) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define WIDE 8
#define HAS_WIDE
#define WIDEST(plain, ...) (__builtin_cpu_supports("avx512f") ? plain##_wide(__VA_ARGS__) : plain(__VA_ARGS__))
#include <immintrin.h>
#else
#define FOR_EVERY_PROCESSOR
#define WIDE 4
#define WIDEST(plain, ...) plain(__VA_ARGS__)
#endif

#define LANES 16
#define PARTS (LANES / WIDE)
#define SUMS 8
#define PAIRWISE 128
#define ROWS_AT_ONCE 32
#define SEARCHED_AT_ONCE 64
#define SAMPLE 256
#define SMALLEST_SAMPLED 1024
#define MOST_LOOKS 16
#define MASKS 4
#define KEPT_AT_ONCE (64 * MASKS)
#define SHUFFLED 10000 /* more than so many NumPy shuffles */
#define MOST_CLUSTERS 32768
#define MOST_RANKED 200000 /* whose products, being whole numbers, add up to less than 2 ** 53 */

#define MISFIT "the arrays do not fit each other, or a place lies outside the scores"

FOR_EVERY_PROCESSOR static void
count_scores(const float *scores, int64_t size, float low, float high, int64_t *at_least, int64_t *above)
{
    int32_t at_least_low = 0, above_high = 0;
    for (int64_t i = 0; i < size; i++) {
        at_least_low += scores[i] >= low;
        above_high += scores[i] > high;
    }
    *at_least += at_least_low;
    *above += above_high;
}

#ifdef HAS_WIDE
/* The same, sixteen scores at once; unrolled, since going on takes as long as comparing. */
__attribute__((target("avx512f"))) static void
count_scores_wide(const float *scores, int64_t size, float low, float high, int64_t *at_least, int64_t *above)
{
    const __m512 lows = _mm512_set1_ps(low), highs = _mm512_set1_ps(high);
    const __m512i one = _mm512_set1_epi32(1);
    __m512i at_least_low = _mm512_setzero_si512(), above_high = _mm512_setzero_si512();
    int64_t i = 0;
#pragma GCC unroll 8
    for (; i < size - size % LANES; i += LANES) {
        const __m512 some = _mm512_loadu_ps(scores + i);
        const __mmask16 reached = _mm512_cmp_ps_mask(some, lows, _CMP_GE_OQ);
        const __mmask16 exceeded = _mm512_cmp_ps_mask(some, highs, _CMP_GT_OQ);
        at_least_low = _mm512_mask_add_epi32(at_least_low, reached, at_least_low, one);
        above_high = _mm512_mask_add_epi32(above_high, exceeded, above_high, one);
    }
    *at_least += _mm512_reduce_add_epi32(at_least_low);
    *above += _mm512_reduce_add_epi32(above_high);
    for (; i < size; i++) {
        *at_least += scores[i] >= low;
        *above += scores[i] > high;
    }
}
#endif

/* Scores from low to high, each with its pair and its place; "size" goes on counting when "capacity" is used up. */
typedef struct {
    int64_t *pairs, *places;
    float *scores;
    int64_t capacity, size;
} Near;

FOR_EVERY_PROCESSOR static int
any_within(const float *scores, int64_t size, float low, float high)
{
    int32_t within = 0;
    for (int64_t i = 0; i < size; i++)
        within |= (scores[i] >= low) & (scores[i] <= high);
    return within;
}

/* Keeps those of "size" scores, "stride" apart, that lie from low to high; "place" is the place of the first. */
static void
keep_near(Near *near, int64_t pair, int64_t place, const float *scores, int64_t stride, int64_t size, float low,
          float high)
{
    for (int64_t i = 0; i < size; i++)
        if (scores[i * stride] >= low && scores[i * stride] <= high) {
            if (near->size < near->capacity) {
                near->pairs[near->size] = pair;
                near->places[near->size] = place + i;
                near->scores[near->size] = scores[i * stride];
            }
            near->size++;
        }
}

/*
 * What both functions are given: the scores, for each pair a place and two thresholds, the bounds of segments, and the
 * arrays to write to.
 */
enum { SCORES, PLACES, LOW, HIGH, BOUNDS, REACHED, BEYOND, NEAR_PAIRS, NEAR_PLACES, NEAR_SCORES, ARRAYS };

typedef struct {
    Py_buffer array[ARRAYS];
    int opened;
    const float *scores, *low, *high;
    const int64_t *place, *bounds;
    int64_t height, width, stride, n_pairs, n_segments;
    int64_t *at_least, *above;
    Near near;
} Task;

static void
release(Task *task)
{
    while (task->opened > 0)
        PyBuffer_Release(&task->array[--task->opened]);
}

static int64_t
length(const Task *task, int array, size_t itemsize)
{
    return task->array[array].len / (Py_ssize_t)itemsize;
}

FOR_EVERY_PROCESSOR static int
all_within(const int64_t *places, int64_t count, int64_t last)
{
    int64_t outside = 0;
    for (int64_t i = 0; i < count; i++)
        outside |= (places[i] < 0) | (places[i] > last);
    return !outside;
}

static int
has_sizes(const Task *task)
{
    const Py_buffer *scores = &task->array[SCORES];
    int64_t counts = task->n_pairs * task->n_segments;
    return scores->ndim == 2 && scores->itemsize == sizeof(float) && scores->strides[1] == sizeof(float) &&
           task->n_segments > 0 && length(task, LOW, sizeof(float)) == task->n_pairs &&
           length(task, HIGH, sizeof(float)) == task->n_pairs && length(task, REACHED, sizeof(int64_t)) == counts &&
           length(task, BEYOND, sizeof(int64_t)) == counts &&
           length(task, NEAR_PLACES, sizeof(int64_t)) == task->near.capacity &&
           length(task, NEAR_SCORES, sizeof(float)) == task->near.capacity;
}

static int
open_task(PyObject *arguments, Task *task, int by_row)
{
    for (task->opened = 0; task->opened < ARRAYS; task->opened++) {
        int flags = task->opened == SCORES ? PyBUF_STRIDES : PyBUF_C_CONTIGUOUS;
        if (task->opened >= REACHED)
            flags |= PyBUF_WRITABLE;
        PyObject *array = PyTuple_GetItem(arguments, task->opened);
        if (array == NULL || PyObject_GetBuffer(array, &task->array[task->opened], flags) < 0) {
            release(task);
            return 0;
        }
    }
    const Py_buffer *array = task->array;
    task->scores = array[SCORES].buf, task->low = array[LOW].buf, task->high = array[HIGH].buf;
    task->place = array[PLACES].buf, task->bounds = array[BOUNDS].buf;
    task->at_least = array[REACHED].buf, task->above = array[BEYOND].buf;
    task->n_pairs = length(task, PLACES, sizeof(int64_t));
    task->n_segments = length(task, BOUNDS, sizeof(int64_t)) - 1;
    task->near = (Near){array[NEAR_PAIRS].buf, array[NEAR_PLACES].buf, array[NEAR_SCORES].buf,
                        length(task, NEAR_PAIRS, sizeof(int64_t)), 0};
    int valid = has_sizes(task);
    if (valid) {
        task->height = array[SCORES].shape[0], task->width = array[SCORES].shape[1];
        task->stride = array[SCORES].strides[0] / (Py_ssize_t)sizeof(float);
        valid = all_within(task->place, task->n_pairs, (by_row ? task->height : task->width) - 1) &&
                all_within(task->bounds, task->n_segments + 1, by_row ? task->width : task->height);
    }
    if (!valid) {
        release(task);
        PyErr_SetString(PyExc_ValueError, MISFIT);
    }
    return valid;
}

static PyObject *
count_rows(PyObject *module, PyObject *arguments)
{
    Task task;
    if (!open_task(arguments, &task, 1))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t pair = 0; pair < task.n_pairs; pair++)
        for (int64_t segment = 0; segment < task.n_segments; segment++) {
            int64_t first = task.bounds[segment], size = task.bounds[segment + 1] - first;
            const float *scores = task.scores + task.place[pair] * task.stride + first;
            int64_t *at_least = &task.at_least[pair * task.n_segments + segment];
            int64_t *above = &task.above[pair * task.n_segments + segment];
            WIDEST(count_scores, scores, size, task.low[pair], task.high[pair], at_least, above);
            if (task.low[pair] == task.high[pair] || *at_least == *above)
                continue;
            for (int64_t i = 0; i < size; i += SEARCHED_AT_ONCE) {
                int64_t part = size - i < SEARCHED_AT_ONCE ? size - i : SEARCHED_AT_ONCE;
                if (any_within(scores + i, part, task.low[pair], task.high[pair]))
                    keep_near(&task.near, pair, first + i, scores + i, 1, part, task.low[pair], task.high[pair]);
            }
        }
    Py_END_ALLOW_THREADS
    release(&task);
    return PyLong_FromLongLong(task.near.size);
}

/*
 * Pairs of LANES columns side by side, at most one of each column: every row is compared with all of them at once. Lanes
 * without a pair have thresholds that nothing reaches.
 */
typedef struct {
    float low[LANES], high[LANES];
    int32_t at_least[LANES], above[LANES], within[LANES];
    int64_t pair[LANES], column;
} Layer;

/* Counts in few rows; returns whether any score lies between the thresholds of its lane, "within" tells of which. */
#ifdef HAS_VECTORS
/* Numbers side by side, at any address, as many as a processor compares at once. */
typedef float Floats __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));

FOR_EVERY_PROCESSOR static int
count_layer(const float *restrict scores, int64_t stride, int64_t height, Layer *restrict layer)
{
    Ints at_least[PARTS] = {{0}}, above[PARTS] = {{0}}, any = {0};
    Floats low[PARTS], high[PARTS];
    for (int part = 0; part < PARTS; part++) {
        low[part] = *(const Floats *)(layer->low + part * WIDE);
        high[part] = *(const Floats *)(layer->high + part * WIDE);
    }
    for (int64_t row = 0; row < height; row++, scores += stride)
        for (int part = 0; part < PARTS; part++) {
            const Floats side_by_side = *(const Floats *)(scores + part * WIDE);
            at_least[part] -= side_by_side >= low[part]; /* a comparison that holds is -1 */
            above[part] -= side_by_side > high[part];
        }
    for (int part = 0; part < PARTS; part++) {
        any |= *(Ints *)(layer->within + part * WIDE) = at_least[part] - above[part];
        *(Ints *)(layer->at_least + part * WIDE) += at_least[part];
        *(Ints *)(layer->above + part * WIDE) += above[part];
    }
    int32_t found = 0;
    for (int lane = 0; lane < WIDE; lane++)
        found |= any[lane];
    return found;
}
#else
static int
count_layer(const float *restrict scores, int64_t stride, int64_t height, Layer *restrict layer)
{
    int32_t at_least[LANES] = {0}, above[LANES] = {0}, found = 0;
    for (int64_t row = 0; row < height; row++, scores += stride)
        for (int lane = 0; lane < LANES; lane++) {
            at_least[lane] += scores[lane] >= layer->low[lane];
            above[lane] += scores[lane] > layer->high[lane];
        }
    for (int lane = 0; lane < LANES; lane++) {
        found |= layer->within[lane] = at_least[lane] - above[lane];
        layer->at_least[lane] += at_least[lane];
        layer->above[lane] += above[lane];
    }
    return found;
}
#endif

#ifdef HAS_WIDE
/* The same with sixteen lanes at once; unrolled, since going on takes as long as comparing. */
__attribute__((target("avx512f"))) static int
count_layer_wide(const float *restrict scores, int64_t stride, int64_t height, Layer *restrict layer)
{
    const __m512 low = _mm512_loadu_ps(layer->low), high = _mm512_loadu_ps(layer->high);
    const __m512i one = _mm512_set1_epi32(1);
    __m512i at_least = _mm512_setzero_si512(), above = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int64_t row = 0; row < height; row++) {
        const __m512 side_by_side = _mm512_loadu_ps(scores + row * stride);
        const __mmask16 reached = _mm512_cmp_ps_mask(side_by_side, low, _CMP_GE_OQ);
        const __mmask16 exceeded = _mm512_cmp_ps_mask(side_by_side, high, _CMP_GT_OQ);
        at_least = _mm512_mask_add_epi32(at_least, reached, at_least, one);
        above = _mm512_mask_add_epi32(above, exceeded, above, one);
    }
    const __m512i within = _mm512_sub_epi32(at_least, above);
    _mm512_storeu_si512(layer->within, within);
    _mm512_storeu_si512(layer->at_least, _mm512_add_epi32(at_least, _mm512_loadu_si512(layer->at_least)));
    _mm512_storeu_si512(layer->above, _mm512_add_epi32(above, _mm512_loadu_si512(layer->above)));
    return _mm512_test_epi32_mask(within, within) != 0;
}
#endif

/* Lays pairs out, those of the same columns in one layer after the other; returns how many, to NULL only that. */
static int64_t
lay_out(const Task *task, Layer *layers)
{
    int64_t n_layers = 0, last = task->width > LANES ? task->width - LANES : 0;
    for (int64_t pair = 0; pair < task->n_pairs;) {
        int64_t column = task->place[pair] - task->place[pair] % LANES, first = n_layers, layer = n_layers;
        column = column < last ? column : last;
        for (; pair < task->n_pairs && task->place[pair] < column + LANES; pair++) {
            layer = pair > 0 && task->place[pair] == task->place[pair - 1] ? layer + 1 : first;
            if (layer == n_layers && ++n_layers && layers != NULL) {
                layers[layer] = (Layer){.column = column};
                for (int lane = 0; lane < LANES; lane++)
                    layers[layer].low[lane] = layers[layer].high[lane] = INFINITY, layers[layer].pair[lane] = -1;
            }
            if (layers != NULL) {
                int64_t lane = task->place[pair] - column;
                layers[layer].low[lane] = task->low[pair], layers[layer].high[lane] = task->high[pair];
                layers[layer].pair[lane] = pair;
            }
        }
    }
    return n_layers;
}

static void
count_tile(Task *task, Layer *layers, int64_t n_layers, int64_t row, int64_t height)
{
    float narrow[ROWS_AT_ONCE * LANES];
    const float *scores = task->scores + row * task->stride;
    int64_t stride = task->stride;
    if (task->width < LANES) {
        for (int64_t i = 0; i < height * LANES; i++)
            narrow[i] = i % LANES < task->width ? scores[i / LANES * stride + i % LANES] : -INFINITY;
        scores = narrow, stride = LANES;
    }
    for (Layer *layer = layers; layer < layers + n_layers; layer++)
        if (WIDEST(count_layer, scores + layer->column, stride, height, layer))
            for (int lane = 0; lane < LANES; lane++)
                if (layer->within[lane] && layer->low[lane] < layer->high[lane])
                    keep_near(&task->near, layer->pair[lane], row, scores + layer->column + lane, stride, height,
                              layer->low[lane], layer->high[lane]);
}

static PyObject *
count_columns(PyObject *module, PyObject *arguments)
{
    Task task;
    if (!open_task(arguments, &task, 0))
        return NULL;
    int64_t n_layers = lay_out(&task, NULL);
    Layer *layers = PyMem_Malloc(n_layers * sizeof(Layer));
    if (layers == NULL) {
        release(&task);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    lay_out(&task, layers);
    for (int64_t segment = 0; segment < task.n_segments; segment++) {
        int64_t stop = task.bounds[segment + 1], counts = segment * task.n_pairs;
        for (int64_t row = task.bounds[segment]; row < stop; row += ROWS_AT_ONCE)
            count_tile(&task, layers, n_layers, row, stop - row < ROWS_AT_ONCE ? stop - row : ROWS_AT_ONCE);
        for (Layer *layer = layers; layer < layers + n_layers; layer++)
            for (int lane = 0; lane < LANES; lane++)
                if (layer->pair[lane] >= 0) {
                    task.at_least[counts + layer->pair[lane]] += layer->at_least[lane];
                    task.above[counts + layer->pair[lane]] += layer->above[lane];
                    layer->at_least[lane] = layer->above[lane] = 0;
                }
    }
    Py_END_ALLOW_THREADS
    PyMem_Free(layers);
    release(&task);
    return PyLong_FromLongLong(task.near.size);
}

/* The sum of products of two vectors, and of their absolute values, in double precision. */
FOR_EVERY_PROCESSOR static void
multiply(const float *restrict one, const float *restrict other, int64_t size, double *sum, double *magnitude)
{
    double sums[SUMS] = {0}, magnitudes[SUMS] = {0};
    int64_t i = 0;
    for (; i + SUMS <= size; i += SUMS)
        for (int lane = 0; lane < SUMS; lane++) {
            double product = (double)one[i + lane] * (double)other[i + lane];
            sums[lane] += product;
            magnitudes[lane] += fabs(product);
        }
    for (; i < size; i++) {
        sums[0] += (double)one[i] * (double)other[i];
        magnitudes[0] += fabs((double)one[i] * (double)other[i]);
    }
    for (int lane = 1; lane < SUMS; lane++) {
        sums[0] += sums[lane];
        magnitudes[0] += magnitudes[lane];
    }
    *sum = sums[0];
    *magnitude = magnitudes[0];
}

static PyObject *
multiply_pairs(PyObject *module, PyObject *arguments)
{
    Py_buffer queries, items, rows, columns, sums, magnitudes;
    Py_ssize_t width;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*nw*w*", &queries, &items, &rows, &columns, &width, &sums, &magnitudes))
        return NULL;
    const int64_t *row = rows.buf, *column = columns.buf;
    int64_t n_pairs = rows.len / (Py_ssize_t)sizeof(int64_t), vector = width * (Py_ssize_t)sizeof(float);
    int valid = width > 0 && columns.len == rows.len && sums.len == n_pairs * (Py_ssize_t)sizeof(double) &&
                magnitudes.len == sums.len && all_within(row, n_pairs, queries.len / vector - 1) &&
                all_within(column, n_pairs, items.len / vector - 1);
    if (valid) {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t pair = 0; pair < n_pairs; pair++)
            multiply((const float *)queries.buf + row[pair] * width, (const float *)items.buf + column[pair] * width,
                     width, (double *)sums.buf + pair, (double *)magnitudes.buf + pair);
        Py_END_ALLOW_THREADS
    }
    Py_buffer *buffers[] = {&queries, &items, &rows, &columns, &sums, &magnitudes};
    for (int i = 0; i < 6; i++)
        PyBuffer_Release(buffers[i]);
    if (!valid)
        return PyErr_Format(PyExc_ValueError, "the arrays do not fit each other, or a place lies outside them");
    Py_RETURN_NONE;
}

/* The sum of squares, in double precision and in the order in which NumPy adds: squares of floats are exact there. */
FOR_EVERY_PROCESSOR static double
sum_squares(const float *vector, int64_t size)
{
    if (size > PAIRWISE) {
        int64_t half = size / 2 - size / 2 % SUMS;
        return sum_squares(vector, half) + sum_squares(vector + half, size - half);
    }
    double sums[SUMS] = {0}, sum = 0;
    int64_t i = 0;
    for (; size >= SUMS && i + SUMS <= size; i += SUMS)
        for (int lane = 0; lane < SUMS; lane++)
            sums[lane] += (double)vector[i + lane] * (double)vector[i + lane];
    sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; i < size; i++)
        sum += (double)vector[i] * (double)vector[i];
    return sum;
}

FOR_EVERY_PROCESSOR static void
divide_vector(const float *restrict vector, int64_t size, double length, float *restrict out)
{
    for (int64_t i = 0; i < size; i++)
        out[i] = (float)((double)vector[i] / length) + 0.0f; /* a negative zero becomes positive */
}

static PyObject *
scale_to_unit(PyObject *module, PyObject *arguments)
{
    Py_buffer vectors, places, targets, out, lengths;
    Py_ssize_t width;
    if (!PyArg_ParseTuple(arguments, "y*y*y*nw*w*", &vectors, &places, &targets, &width, &out, &lengths))
        return NULL;
    const int64_t *place = places.buf, *target = targets.buf;
    int64_t count = places.len / (Py_ssize_t)sizeof(int64_t), vector = width * (Py_ssize_t)sizeof(float);
    double *length = lengths.buf;
    int valid = width > 0 && targets.len == places.len && lengths.len == count * (Py_ssize_t)sizeof(double) &&
                all_within(place, count, vectors.len / vector - 1) && all_within(target, count, out.len / vector - 1);
    if (valid) {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t i = 0; i < count; i++) {
            const float *from = (const float *)vectors.buf + place[i] * width;
            length[i] = sqrt(sum_squares(from, width));
            divide_vector(from, width, length[i] > 0 ? length[i] : 1, (float *)out.buf + target[i] * width);
        }
        Py_END_ALLOW_THREADS
    }
    Py_buffer *buffers[] = {&vectors, &places, &targets, &out, &lengths};
    for (int i = 0; i < 5; i++)
        PyBuffer_Release(buffers[i]);
    if (!valid)
        return PyErr_Format(PyExc_ValueError, MISFIT);
    Py_RETURN_NONE;
}

/*
 * Scores beyond a pivot, above or below, and scores that reach a bound with their items, one behind the other: without a
 * branch that a processor could guess wrong, and sixteen at once where a processor can close the gaps itself. What is
 * written to has room for LANES more. Items are left out where they are negative; scores may be kept in their own place.
 */
static int64_t
keep_above(const float *restrict scores, int64_t size, float pivot, float sign, float *restrict kept)
{
    int64_t n_kept = 0;
    for (int64_t i = 0; i < size; i++) {
        kept[n_kept] = scores[i];
        n_kept += sign * scores[i] > sign * pivot;
    }
    return n_kept;
}

static int64_t
keep_items(const float *scores, const int32_t *items, int64_t size, float bound, float *kept, int32_t *kept_items)
{
    int64_t n_kept = 0;
    for (int64_t i = 0; i < size; i++) {
        float score = scores[i];
        int32_t item = items[i];
        kept[n_kept] = score, kept_items[n_kept] = item;
        n_kept += (score >= bound) & (item >= 0);
    }
    return n_kept;
}

#ifdef HAS_WIDE
__attribute__((target("avx512f"))) static int64_t
keep_above_wide(const float *restrict scores, int64_t size, float pivot, float sign, float *restrict kept)
{
    const __m512 factor = _mm512_set1_ps(sign), least = _mm512_set1_ps(sign * pivot);
    int64_t n_kept = 0;
    for (int64_t i = 0; i < size; i += LANES) {
        __mmask16 there = size - i < LANES ? (__mmask16)((1u << (size - i)) - 1) : (__mmask16)-1;
        __m512 some = _mm512_maskz_loadu_ps(there, scores + i);
        __mmask16 chosen = _mm512_mask_cmp_ps_mask(there, _mm512_mul_ps(some, factor), least, _CMP_GT_OQ);
        _mm512_storeu_ps(kept + n_kept, _mm512_maskz_compress_ps(chosen, some));
        n_kept += __builtin_popcount(chosen);
    }
    return n_kept;
}

__attribute__((target("avx512f"))) static int64_t
keep_items_wide(const float *scores, const int32_t *items, int64_t size, float bound, float *kept, int32_t *kept_items)
{
    const __m512 least = _mm512_set1_ps(bound);
    int64_t n_kept = 0;
    for (int64_t i = 0; i < size; i += LANES) {
        __mmask16 there = size - i < LANES ? (__mmask16)((1u << (size - i)) - 1) : (__mmask16)-1;
        __m512 some = _mm512_maskz_loadu_ps(there, scores + i);
        __mmask16 chosen = _mm512_mask_cmp_ps_mask(there, some, least, _CMP_GE_OQ);
        __m512i own = _mm512_maskz_loadu_epi32(there, items + i);
        chosen = _mm512_mask_cmpge_epi32_mask(chosen, own, _mm512_setzero_si512());
        _mm512_storeu_ps(kept + n_kept, _mm512_maskz_compress_ps(chosen, some));
        _mm512_storeu_si512(kept_items + n_kept, _mm512_maskz_compress_epi32(chosen, own));
        n_kept += __builtin_popcount(chosen);
    }
    return n_kept;
}
#endif

/* The "depth"-th largest of some scores, which stay as they are; "spare" holds twice as many and some. */
static float
select_score(const float *scores, int64_t size, int64_t depth, float *spare)
{
    int64_t room = size + LANES;
    for (int turn = 0;; turn ^= 1) {
        float *rest = spare + turn * room;
        float first = scores[0], middle = scores[size / 2], last = scores[size - 1];
        float low = first < middle ? first : middle, high = first < middle ? middle : first;
        float pivot = last < low ? low : last < high ? last : high;
        int64_t kept = WIDEST(keep_above, scores, size, pivot, 1, rest);
        if (depth > kept) {
            kept = WIDEST(keep_above, scores, size, pivot, -1, rest);
            if (depth <= size - kept)
                return pivot;
            depth -= size - kept;
        }
        scores = rest, size = kept;
    }
}

/* A score that most likely so many reach, and few more: judged by a sample of a row, which need not be right. */
static float
guess_bound(const float *scores, int64_t size, int64_t depth, float *spare)
{
    float sample[SAMPLE];
    double share = (double)depth / (double)size, mean = SAMPLE * share;
    int64_t rank = (int64_t)(mean + 3 * sqrt(mean * (1 - share)) + 3);
    if (size < SMALLEST_SAMPLED || rank > SAMPLE)
        return -INFINITY;
    for (int64_t i = 0; i < SAMPLE; i++)
        sample[i] = scores[i * size / SAMPLE];
    return select_score(sample, SAMPLE, rank, spare);
}

/* The scores of a row that are looked at, each with its item; room for as many as the row is wide. */
typedef struct {
    float *scores, *spare;
    int32_t *items;
} Best;

enum { AT_LEAST, MATCHES, TIED, TIED_MATCHES, COUNTS };
enum { ROWS, ITEMS, CLASSES, DISTANCES, QUERY_CLASSES, ZETAS, DEPTHS, LOWEST, COUNTED, MATCH_ARRAYS };

typedef struct {
    Py_buffer scores, array[MATCH_ARRAYS];
    int64_t n_rows, height, width, stride, n_looks, n_items, n_classes;
} Matching;

/* Looks at one row, from the deepest look to the one that is least deep: each narrows what the next has to look at. */
FOR_EVERY_PROCESSOR static void
match_row(const Matching *task, int64_t row, const int32_t *items, Best *best)
{
    const float *scores = (const float *)task->scores.buf + ((const int64_t *)task->array[ROWS].buf)[row] * task->stride;
    const int64_t *depths = (const int64_t *)task->array[DEPTHS].buf + row * task->n_looks;
    const int32_t *classes = task->array[CLASSES].buf;
    const uint8_t *distances = (const uint8_t *)task->array[DISTANCES].buf +
                               ((const int64_t *)task->array[QUERY_CLASSES].buf)[row] * task->n_classes;
    int64_t order[MOST_LOOKS];
    for (int64_t look = 0; look < task->n_looks; look++) {
        int64_t place = look;
        for (; place > 0 && depths[order[place - 1]] < depths[look]; place--)
            order[place] = order[place - 1];
        order[place] = look;
    }
    float bound = guess_bound(scores, task->width, depths[order[0]], best->spare);
    int64_t size = WIDEST(keep_items, scores, items, task->width, bound, best->scores, best->items);
    if (size < depths[order[0]])
        size = WIDEST(keep_items, scores, items, task->width, -INFINITY, best->scores, best->items);
    for (int64_t i = 0; i < task->n_looks; i++) {
        int64_t look = order[i], zeta = ((const int64_t *)task->array[ZETAS].buf)[look];
        float *lowest = (float *)task->array[LOWEST].buf + row * task->n_looks + look;
        int64_t *counts = (int64_t *)task->array[COUNTED].buf + (row * task->n_looks + look) * COUNTS;
        *lowest = -INFINITY;
        if (depths[look] < 1 || depths[look] > size)
            continue;
        float last = *lowest = select_score(best->scores, size, depths[look], best->spare);
        size = WIDEST(keep_items, best->scores, best->items, size, last, best->scores, best->items);
        int64_t matches = 0, tied = 0, tied_matches = 0;
        for (int64_t j = 0; j < size; j++) {
            int64_t is_match = distances[classes[best->items[j]]] <= zeta;
            matches += is_match;
            if (best->scores[j] == last) /* seldom more than once */
                tied++, tied_matches += is_match;
        }
        counts[AT_LEAST] = size, counts[MATCHES] = matches, counts[TIED] = tied, counts[TIED_MATCHES] = tied_matches;
    }
}

FOR_EVERY_PROCESSOR static int
none_beyond(const int32_t *places, int64_t count, int64_t last)
{
    int32_t most = -1;
    for (int64_t i = 0; i < count; i++)
        most = places[i] > most ? places[i] : most;
    return most <= last;
}

/* Opens a block of float32 scores whose rows are each in one piece. */
static int
open_scores(PyObject *object, Py_buffer *scores)
{
    if (PyObject_GetBuffer(object, scores, PyBUF_STRIDES) < 0)
        return 0;
    if (scores->ndim == 2 && scores->itemsize == sizeof(float) && scores->strides[1] == sizeof(float))
        return 1;
    PyBuffer_Release(scores);
    PyErr_SetString(PyExc_ValueError, MISFIT);
    return 0;
}

static int
matching_fits(Matching *task)
{
    const Py_buffer *array = task->array;
    task->height = task->scores.shape[0], task->width = task->scores.shape[1];
    task->stride = task->scores.strides[0] / (Py_ssize_t)sizeof(float);
    task->n_rows = array[ROWS].len / (Py_ssize_t)sizeof(int64_t);
    task->n_looks = array[ZETAS].len / (Py_ssize_t)sizeof(int64_t);
    task->n_items = array[CLASSES].len / (Py_ssize_t)sizeof(int32_t);
    int64_t row = task->width * (Py_ssize_t)sizeof(int32_t), looks = task->n_rows * task->n_looks;
    for (task->n_classes = 0; task->n_classes * task->n_classes < array[DISTANCES].len;)
        task->n_classes++;
    return task->width > 0 && task->n_looks > 0 && task->n_looks <= MOST_LOOKS &&
           array[DISTANCES].len == task->n_classes * task->n_classes &&
           (array[ITEMS].len == row || array[ITEMS].len == task->height * row) &&
           array[QUERY_CLASSES].len == array[ROWS].len &&
           array[DEPTHS].len == looks * (Py_ssize_t)sizeof(int64_t) &&
           array[LOWEST].len == looks * (Py_ssize_t)sizeof(float) &&
           array[COUNTED].len == looks * COUNTS * (Py_ssize_t)sizeof(int64_t) &&
           none_beyond(array[ITEMS].buf, array[ITEMS].len / (Py_ssize_t)sizeof(int32_t), task->n_items - 1) &&
           none_beyond(array[CLASSES].buf, task->n_items, task->n_classes - 1) &&
           all_within(array[ROWS].buf, task->n_rows, task->height - 1) &&
           all_within(array[QUERY_CLASSES].buf, task->n_rows, task->n_classes - 1);
}

static PyObject *
count_matches(PyObject *module, PyObject *arguments)
{
    Matching task;
    PyObject *block;
    Py_buffer *array = task.array;
    if (!PyArg_ParseTuple(arguments, "Oy*y*y*y*y*y*y*w*w*", &block, &array[ROWS], &array[ITEMS], &array[CLASSES],
                          &array[DISTANCES], &array[QUERY_CLASSES], &array[ZETAS], &array[DEPTHS], &array[LOWEST],
                          &array[COUNTED]))
        return NULL;
    PyObject *result = NULL;
    if (open_scores(block, &task.scores)) {
        int64_t *room = NULL;
        if (!matching_fits(&task))
            PyErr_SetString(PyExc_ValueError, MISFIT);
        else if ((room = PyMem_Malloc((task.width + LANES) * (3 * sizeof(float) + sizeof(int32_t)))) == NULL)
            PyErr_NoMemory();
        else {
            Py_BEGIN_ALLOW_THREADS
            float *scores = (float *)room;
            int64_t size = task.width + LANES;
            Best best = {scores, scores + size, (int32_t *)(scores + 3 * size)};
            const int64_t *rows = array[ROWS].buf;
            int64_t own = array[ITEMS].len > task.width * (Py_ssize_t)sizeof(int32_t) ? task.width : 0;
            for (int64_t row = 0; row < task.n_rows; row++)
                match_row(&task, row, (const int32_t *)array[ITEMS].buf + rows[row] * own, &best);
            Py_END_ALLOW_THREADS
            PyMem_Free(room);
            result = Py_NewRef(Py_None);
        }
        PyBuffer_Release(&task.scores);
    }
    for (int i = 0; i < MATCH_ARRAYS; i++)
        PyBuffer_Release(&array[i]);
    return result;
}

/* The score at a depth of each column, of some rows; every column is gone through where its scores stand side by side. */
static PyObject *
select_in_columns(PyObject *module, PyObject *arguments)
{
    PyObject *block;
    Py_buffer scores, rows, depths, selected;
    if (!PyArg_ParseTuple(arguments, "Oy*y*w*", &block, &rows, &depths, &selected))
        return NULL;
    PyObject *result = NULL;
    if (open_scores(block, &scores)) {
        int64_t width = scores.shape[1], stride = scores.strides[0] / (int64_t)sizeof(float);
        int64_t count = rows.len / (int64_t)sizeof(int64_t), room = count + LANES;
        const int64_t *row = rows.buf, *depth = depths.buf;
        float *lines = NULL;
        int valid = depths.len == width * (int64_t)sizeof(int64_t) && selected.len == width * (int64_t)sizeof(float) &&
                    all_within(row, count, scores.shape[0] - 1);
        if (!valid)
            PyErr_SetString(PyExc_ValueError, MISFIT);
        else if ((lines = PyMem_Malloc((LANES + 2) * room * sizeof(float))) == NULL)
            PyErr_NoMemory();
        else {
            Py_BEGIN_ALLOW_THREADS
            for (int64_t first = 0; first < width; first += LANES) {
                int64_t own = width - first < LANES ? width - first : LANES;
                for (int64_t i = 0; i < count; i++)
                    for (int64_t lane = 0; lane < own; lane++)
                        lines[lane * room + i] = ((const float *)scores.buf)[row[i] * stride + first + lane];
                for (int64_t lane = 0; lane < own; lane++) {
                    float *score = (float *)selected.buf + first + lane;
                    *score = depth[first + lane] < 1 ? INFINITY : -INFINITY;
                    if (depth[first + lane] >= 1 && depth[first + lane] <= count)
                        *score = select_score(lines + lane * room, count, depth[first + lane], lines + LANES * room);
                }
            }
            Py_END_ALLOW_THREADS
            PyMem_Free(lines);
            result = Py_NewRef(Py_None);
        }
        PyBuffer_Release(&scores);
    }
    Py_buffer *buffers[] = {&rows, &depths, &selected};
    for (int i = 0; i < 3; i++)
        PyBuffer_Release(buffers[i]);
    return result;
}

/* A score that is kept, with its item. */
typedef struct {
    float score;
    int32_t item;
} Kept;

/* Eight flags, each a byte, as eight bits. */
static uint64_t
pack_flags(const uint8_t *flags)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word |= (uint64_t)flags[i] << (8 * i);
    return word * 0x0102040810204080u >> 56;
}

/* The place of the lowest bit that is set; one is. */
static int
lowest_bit(uint64_t word)
{
#ifdef HAS_VECTORS
    return __builtin_ctzll(word);
#else
    int place = 0;
    for (int half = 32; half > 0; half /= 2)
        if (!(word & (((uint64_t)1 << half) - 1)))
            word >>= half, place += half;
    return place;
#endif
}

/*
 * Marks the scores of a few columns that reach the columns' bounds, MASKS words of bits for each row, and counts them by
 * column. Rows of a negative item are left out.
 */
FOR_EVERY_PROCESSOR static void
mark_reached(const float *restrict scores, int64_t stride, const int32_t *restrict items, int64_t height,
             const float *restrict bounds, int64_t width, int32_t *restrict counts, uint64_t *restrict masks)
{
    uint8_t flags[KEPT_AT_ONCE] = {0}, few[KEPT_AT_ONCE] = {0};
    for (int64_t row = 0; row < height; row++) {
        uint8_t own = items[row] >= 0;
        for (int64_t column = 0; column < width; column++) {
            flags[column] = (scores[row * stride + column] >= bounds[column]) & own;
            few[column] += flags[column];
        }
        for (int64_t column = 0; (row % 255 == 254 || row == height - 1) && column < width; column++) {
            counts[column] += few[column];
            few[column] = 0;
        }
        for (int mask = 0; mask < MASKS; mask++) {
            masks[row * MASKS + mask] = 0;
            for (int part = 0; part < 8; part++)
                masks[row * MASKS + mask] |= pack_flags(flags + 64 * mask + 8 * part) << (8 * part);
        }
    }
}

#ifdef HAS_WIDE
__attribute__((target("avx512f"))) static void
mark_reached_wide(const float *restrict scores, int64_t stride, const int32_t *restrict items, int64_t height,
                  const float *restrict bounds, int64_t width, int32_t *restrict counts, uint64_t *restrict masks)
{
    const __m512i none_less = _mm512_set1_epi32(-1);
    for (int64_t row = 0; row < height; row++, scores += stride, masks += MASKS)
        for (int mask = 0; mask < MASKS; mask++) {
            masks[mask] = 0;
            for (int64_t first = 64 * mask; items[row] >= 0 && first < 64 * mask + 64 && first < width; first += LANES) {
                __builtin_prefetch(scores + first + 2 * stride); /* no processor foresees so short a part of a row */
                int64_t left = width - first;
                __mmask16 there = left < LANES ? (__mmask16)((1u << left) - 1) : (__mmask16)-1;
                __m512 some = _mm512_maskz_loadu_ps(there, scores + first);
                __m512 least = _mm512_maskz_loadu_ps(there, bounds + first);
                __mmask16 reached = _mm512_mask_cmp_ps_mask(there, some, least, _CMP_GE_OQ);
                __m512i count = _mm512_maskz_loadu_epi32(there, counts + first);
                count = _mm512_mask_sub_epi32(count, reached, count, none_less);
                _mm512_mask_storeu_epi32(counts + first, there, count);
                masks[mask] |= (uint64_t)reached << (first - 64 * mask);
            }
        }
}
#endif

/*
 * Keeps the scores of a few columns that reach the columns' bounds, from "start" on; returns where they end. Nothing is
 * kept beyond the room. "masks" takes MASKS words for each row: they are gone through bit by bit, since few bits are set.
 */
FOR_EVERY_PROCESSOR static int64_t
keep_reached(const float *restrict scores, int64_t stride, const int32_t *restrict items, int64_t height,
             const float *restrict bounds, int64_t width, int64_t start, int64_t *restrict starts, Kept *restrict kept,
             int64_t room, uint64_t *restrict masks)
{
    int32_t counts[KEPT_AT_ONCE] = {0};
    int64_t ends[KEPT_AT_ONCE];
    WIDEST(mark_reached, scores, stride, items, height, bounds, width, counts, masks);
    for (int64_t column = 0; column < width; column++) {
        starts[column] = ends[column] = start;
        start += counts[column];
    }
    if (start > room)
        return start;
    for (int64_t row = 0; row < height; row++)
        for (int mask = 0; mask < MASKS; mask++)
            for (uint64_t left = masks[row * MASKS + mask]; left; left &= left - 1) {
                int column = 64 * mask + lowest_bit(left);
                kept[ends[column]++] = (Kept){scores[row * stride + column], items[row]};
            }
    return start;
}

static PyObject *
reach_bounds(PyObject *module, PyObject *arguments)
{
    PyObject *block;
    Py_buffer scores, items, bounds, starts, kept;
    if (!PyArg_ParseTuple(arguments, "Oy*y*w*w*", &block, &items, &bounds, &starts, &kept))
        return NULL;
    PyObject *result = NULL;
    if (open_scores(block, &scores)) {
        int64_t height = scores.shape[0], width = scores.shape[1], stride = scores.strides[0] / (int64_t)sizeof(float);
        int64_t *start = starts.buf, end = 0, room = kept.len / (int64_t)sizeof(Kept);
        uint64_t *masks = PyMem_Malloc(height * MASKS * sizeof(uint64_t));
        if (masks == NULL)
            PyErr_NoMemory();
        else if (items.len == height * (int64_t)sizeof(int32_t) && bounds.len == width * (int64_t)sizeof(float) &&
            starts.len == (width + 1) * (int64_t)sizeof(int64_t)) {
            Py_BEGIN_ALLOW_THREADS
            for (int64_t first = 0; first < width; first += KEPT_AT_ONCE) {
                int64_t size = width - first < KEPT_AT_ONCE ? width - first : KEPT_AT_ONCE;
                end = keep_reached((const float *)scores.buf + first, stride, items.buf, height,
                                   (const float *)bounds.buf + first, size, end, start + first, kept.buf, room, masks);
            }
            start[width] = end;
            Py_END_ALLOW_THREADS
            result = PyLong_FromLongLong(end);
        } else
            PyErr_SetString(PyExc_ValueError, MISFIT);
        PyMem_Free(masks);
        PyBuffer_Release(&scores);
    }
    Py_buffer *buffers[] = {&items, &bounds, &starts, &kept};
    for (int i = 0; i < 4; i++)
        PyBuffer_Release(buffers[i]);
    return result;
}

static PyObject *
spread_kept(PyObject *module, PyObject *arguments)
{
    Py_buffer kept, starts, columns, filled, scores, items;
    if (!PyArg_ParseTuple(arguments, "y*y*y*w*w*w*", &kept, &starts, &columns, &filled, &scores, &items))
        return NULL;
    const Kept *found = kept.buf;
    const int64_t *start = starts.buf, *column = columns.buf;
    int64_t *sizes = filled.buf, n_columns = columns.len / (int64_t)sizeof(int64_t);
    int64_t n_starts = starts.len / (int64_t)sizeof(int64_t), n_kept = kept.len / (int64_t)sizeof(Kept);
    int64_t room = n_columns ? scores.len / (int64_t)sizeof(float) / n_columns : 0;
    int valid = filled.len == columns.len && items.len == scores.len && all_within(column, n_columns, n_starts - 2) &&
                all_within(start, n_starts, n_kept);
    for (int64_t i = 0; valid && i < n_columns; i++) {
        int64_t first = start[column[i]], last = start[column[i] + 1];
        valid = sizes[i] >= 0 && sizes[i] + last - first <= room;
        for (int64_t place = i * room + sizes[i]; valid && first < last; first++, place++, sizes[i]++) {
            ((float *)scores.buf)[place] = found[first].score;
            ((int32_t *)items.buf)[place] = found[first].item;
        }
    }
    Py_buffer *buffers[] = {&kept, &starts, &columns, &filled, &scores, &items};
    for (int i = 0; i < 6; i++)
        PyBuffer_Release(buffers[i]);
    if (!valid)
        return PyErr_Format(PyExc_ValueError, MISFIT);
    Py_RETURN_NONE;
}

/* What NumPy's bit generators hand out in their capsules: numpy/random/bitgen.h. */
typedef struct {
    void *state;
    uint64_t (*next_uint64)(void *);
    uint32_t (*next_uint32)(void *);
    double (*next_double)(void *);
    uint64_t (*next_raw)(void *);
} BitGenerator;

/* A number from 0 to "last" as NumPy's Generator draws it: Lemire, Fast Random Integer Generation in an Interval. */
static inline uint32_t
draw_below(const BitGenerator *random, uint32_t last)
{
    uint32_t size = last + 1;
    uint64_t product = (uint64_t)random->next_uint32(random->state) * size;
    if ((uint32_t)product < size)
        for (uint32_t unfair = (UINT32_MAX - last) % size; (uint32_t)product < unfair;)
            product = (uint64_t)random->next_uint32(random->state) * size;
    return (uint32_t)(product >> 32);
}

/*
 * Half of "size" numbers without replacement, as Generator.choice(size, half, replace=False, shuffle=False) draws them:
 * of few by Floyd's algorithm, of many by the end of a shuffle. "numbers" has room for all of them, the half comes last.
 */
static void
draw_half(const BitGenerator *random, uint32_t size, uint32_t half, uint32_t *numbers)
{
    if (size > SHUFFLED) {
        for (uint32_t i = 0; i < size; i++)
            numbers[i] = i;
        for (uint32_t i = size - 1; i >= size - half; i--) {
            uint32_t place = draw_below(random, i), number = numbers[place];
            numbers[place] = numbers[i];
            numbers[i] = number;
        }
    } else {
        uint8_t taken[SHUFFLED] = {0};
        for (uint32_t i = size - half; i < size; i++) {
            uint32_t number = draw_below(random, i);
            number = taken[number] ? i : number;
            taken[number] = 1;
            numbers[i] = number;
        }
    }
}

static PyObject *
draw_rows(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    Py_buffer rows, ends, drawn;
    if (!PyArg_ParseTuple(arguments, "Oy*y*w*", &capsule, &rows, &ends, &drawn))
        return NULL;
    PyObject *result = NULL;
    const BitGenerator *random = PyCapsule_GetPointer(capsule, "BitGenerator");
    const int64_t *row = rows.buf, *end = ends.buf;
    int64_t n_rows = rows.len / (Py_ssize_t)sizeof(int64_t), n_queries = ends.len / (Py_ssize_t)sizeof(int64_t) - 1;
    int64_t half = n_queries / 2, n_drawn = drawn.len / (Py_ssize_t)sizeof(int64_t);
    int valid = half > 0 && n_queries < INT32_MAX && n_drawn % half == 0 && all_within(end, n_queries + 1, n_rows);
    for (int64_t query = 0; valid && query < n_queries; query++)
        valid = end[query] < end[query + 1];
    uint32_t *numbers = NULL;
    if (random == NULL)
        ;
    else if (!valid)
        PyErr_SetString(PyExc_ValueError, MISFIT);
    else if ((numbers = PyMem_Malloc(n_queries * sizeof(uint32_t))) == NULL)
        PyErr_NoMemory();
    else {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t *sample = drawn.buf; n_drawn > 0; sample += half, n_drawn -= half) {
            draw_half(random, (uint32_t)n_queries, (uint32_t)half, numbers);
            for (int64_t i = 0; i < half; i++) {
                int64_t query = numbers[n_queries - half + i];
                double size = (double)(end[query + 1] - end[query]);
                sample[i] = row[end[query] + (int64_t)(random->next_double(random->state) * size)];
            }
        }
        Py_END_ALLOW_THREADS
        PyMem_Free(numbers);
        result = Py_NewRef(Py_None);
    }
    Py_buffer *buffers[] = {&rows, &ends, &drawn};
    for (int i = 0; i < 3; i++)
        PyBuffer_Release(buffers[i]);
    return result;
}

/* From how often each level occurs to twice its average rank, less the mean of that; "size" is the sum of all counts. */
static void
rank_levels(int32_t *counts, int64_t n_levels, int32_t size)
{
    int32_t below = 0;
    for (int64_t level = 0; level < n_levels; level++) {
        int32_t upto = below + counts[level];
        counts[level] = below + upto - size;
        below = upto;
    }
}

/* Sums of squares and of products of the ranks of chosen rows, "codes" being two for each row. */
FOR_EVERY_PROCESSOR static void
multiply_ranks(const int32_t *restrict codes, const int64_t *restrict rows, int64_t size, int32_t *restrict first,
               int64_t n_first, int32_t *restrict second, int64_t n_second, int32_t *restrict chosen,
               double *restrict sums)
{
    memset(first, 0, n_first * sizeof(int32_t));
    memset(second, 0, n_second * sizeof(int32_t));
    for (int64_t i = 0; i < size; i++) {
        first[chosen[2 * i] = codes[2 * rows[i]]]++;
        second[chosen[2 * i + 1] = codes[2 * rows[i] + 1]]++;
    }
    rank_levels(first, n_first, (int32_t)size);
    rank_levels(second, n_second, (int32_t)size);
    int64_t first_squares = 0, second_squares = 0, products = 0;
    for (int64_t i = 0; i < size; i++) {
        int64_t one = first[chosen[2 * i]], other = second[chosen[2 * i + 1]];
        first_squares += one * one, second_squares += other * other, products += one * other;
    }
    sums[0] = (double)first_squares, sums[1] = (double)second_squares, sums[2] = (double)products;
}

static PyObject *
correlate_ranks(PyObject *module, PyObject *arguments)
{
    Py_buffer codes, rows, sums;
    Py_ssize_t n_first, n_second;
    if (!PyArg_ParseTuple(arguments, "y*nny*w*", &codes, &n_first, &n_second, &rows, &sums))
        return NULL;
    PyObject *result = NULL;
    const int32_t *code = codes.buf;
    int64_t n_codes = codes.len / (2 * (Py_ssize_t)sizeof(int32_t));
    int64_t n_samples = sums.len / (3 * (Py_ssize_t)sizeof(double));
    int64_t n_rows = rows.len / (Py_ssize_t)sizeof(int64_t), size = n_samples > 0 ? n_rows / n_samples : 0;
    int valid = n_first > 0 && n_second > 0 && n_samples > 0 && size <= MOST_RANKED && size * n_samples == n_rows &&
                all_within(rows.buf, n_rows, n_codes - 1);
    for (int64_t i = 0; valid && i < n_codes; i++)
        valid = code[2 * i] >= 0 && code[2 * i] < n_first && code[2 * i + 1] >= 0 && code[2 * i + 1] < n_second;
    int32_t *room = NULL;
    if (!valid)
        PyErr_SetString(PyExc_ValueError, MISFIT);
    else if ((room = PyMem_Malloc((n_first + n_second + 2 * size) * sizeof(int32_t))) == NULL)
        PyErr_NoMemory();
    else {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t sample = 0; sample < n_samples; sample++)
            multiply_ranks(code, (const int64_t *)rows.buf + sample * size, size, room, n_first, room + n_first,
                           n_second, room + n_first + n_second, (double *)sums.buf + 3 * sample);
        Py_END_ALLOW_THREADS
        PyMem_Free(room);
        result = Py_NewRef(Py_None);
    }
    Py_buffer *buffers[] = {&codes, &rows, &sums};
    for (int i = 0; i < 3; i++)
        PyBuffer_Release(buffers[i]);
    return result;
}

/*
 * How often each of "size" clusters is drawn in each sample, as Generator.integers(size, dtype=uint16) draws them: two
 * numbers of each 32 bits.
 */
static void
count_draws(const BitGenerator *random, uint32_t size, int64_t n_samples, int16_t *times)
{
    uint32_t unfair = (65536 - size) % size, word = 0, spent = 1;
    memset(times, 0, n_samples * size * sizeof(int16_t));
    for (; n_samples > 0; n_samples--, times += size)
        for (uint32_t i = 0; i < size;) {
            word = spent ? random->next_uint32(random->state) : word >> 16;
            spent = !spent;
            uint32_t product = (word & 0xFFFF) * size;
            if ((product & 0xFFFF) >= unfair) {
                times[product >> 16]++;
                i++;
            }
        }
}

static PyObject *
draw_times(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    Py_buffer times;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "Onw*", &capsule, &size, &times))
        return NULL;
    const BitGenerator *random = PyCapsule_GetPointer(capsule, "BitGenerator");
    int64_t count = times.len / (Py_ssize_t)sizeof(int16_t);
    int valid = size > 0 && size <= MOST_CLUSTERS && count % size == 0;
    if (random != NULL && valid) {
        Py_BEGIN_ALLOW_THREADS
        count_draws(random, (uint32_t)size, count / size, times.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&times);
    if (random == NULL)
        return NULL;
    if (!valid)
        return PyErr_Format(PyExc_ValueError, MISFIT);
    Py_RETURN_NONE;
}

FOR_EVERY_PROCESSOR static int32_t
multiply_times(const int16_t *restrict times, const int16_t *restrict values, int64_t size)
{
    uint32_t sum = 0;
    for (int64_t i = 0; i < size; i++)
        sum += (uint32_t)((int32_t)times[i] * values[i]);
    return (int32_t)sum;
}

static PyObject *
sum_drawn(PyObject *module, PyObject *arguments)
{
    Py_buffer times, values, sums;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "y*y*nw*", &times, &values, &size, &sums))
        return NULL;
    int64_t row = size * (Py_ssize_t)sizeof(int16_t), n_samples = 0, n_sums = 0;
    int valid = size > 0 && times.len % row == 0 && values.len % row == 0;
    if (valid) {
        n_samples = times.len / row, n_sums = values.len / row;
        valid = sums.len == n_samples * n_sums * (Py_ssize_t)sizeof(double);
    }
    if (valid) {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t sample = 0; sample < n_samples; sample++)
            for (int64_t i = 0; i < n_sums; i++)
                ((double *)sums.buf)[i * n_samples + sample] = multiply_times(
                    (const int16_t *)times.buf + sample * size, (const int16_t *)values.buf + i * size, size);
        Py_END_ALLOW_THREADS
    }
    Py_buffer *buffers[] = {&times, &values, &sums};
    for (int i = 0; i < 3; i++)
        PyBuffer_Release(buffers[i]);
    if (!valid)
        return PyErr_Format(PyExc_ValueError, MISFIT);
    Py_RETURN_NONE;
}

static PyObject *
find_ranks(PyObject *module, PyObject *arguments)
{
    Py_buffer times, members, below, ranks, places;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "y*ny*y*y*w*", &times, &size, &members, &below, &ranks, &places))
        return NULL;
    const int64_t *member = members.buf, *start = below.buf, *rank = ranks.buf;
    int64_t n_members = members.len / (Py_ssize_t)sizeof(int64_t);
    int64_t n_samples = below.len / (Py_ssize_t)sizeof(int64_t);
    int valid = size > 0 && times.len == n_samples * size * (Py_ssize_t)sizeof(int16_t) &&
                ranks.len == 2 * n_samples * (Py_ssize_t)sizeof(int64_t) && places.len == ranks.len &&
                all_within(member, n_members, size - 1);
    if (valid) {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t sample = 0; sample < n_samples; sample++) {
            const int16_t *own = (const int16_t *)times.buf + sample * size;
            int64_t place = 0, reached = start[sample];
            for (int64_t i = sample; i < 2 * n_samples; i += n_samples) {
                for (; place < n_members && reached + own[member[place]] <= rank[i]; place++)
                    reached += own[member[place]];
                ((int64_t *)places.buf)[i] = place;
            }
        }
        Py_END_ALLOW_THREADS
    }
    Py_buffer *buffers[] = {&times, &members, &below, &ranks, &places};
    for (int i = 0; i < 5; i++)
        PyBuffer_Release(buffers[i]);
    if (!valid)
        return PyErr_Format(PyExc_ValueError, MISFIT);
    Py_RETURN_NONE;
}

/*
 * Of two rows of levels from 0, which are equal for ties: pairs of items that are ordered oppositely, that tie in the
 * first row, in the second, and in both. Items come by ascending level of the first row; a binary indexed tree
 * (Fenwick 1994) counts those so far by their level in the second. ``starts`` has room for n + 1, the others for n.
 */
static void
compare_orders(const int32_t *first, const int32_t *second, int64_t n, int32_t *starts, int32_t *ordered, int32_t *tree,
               int32_t *seen, int64_t *counts)
{
    int64_t discordant = 0, tied_first = 0, tied_second = 0, tied_both = 0;
    memset(starts, 0, (n + 1) * sizeof(int32_t));
    memset(tree, 0, n * sizeof(int32_t));
    memset(seen, 0, n * sizeof(int32_t));
    for (int64_t i = 0; i < n; i++) {
        starts[first[i] + 1]++;
        tied_second += seen[second[i]]++;
    }
    memset(seen, 0, n * sizeof(int32_t));
    for (int64_t level = 0; level < n; level++)
        starts[level + 1] += starts[level];
    for (int64_t i = n - 1; i >= 0; i--)
        ordered[--starts[first[i] + 1]] = second[i];
    /* Now starts[level + 1] is where the items of a level begin, and those of the next level where they end. */
    for (int64_t level = 0; level < n; level++) {
        int64_t begin = starts[level + 1], end = level + 1 < n ? starts[level + 2] : n;
        for (int64_t i = begin; i < end; i++) {
            int64_t at_most = 0;
            for (int64_t node = ordered[i] + 1; node > 0; node &= node - 1)
                at_most += tree[node - 1];
            discordant += begin - at_most;
        }
        for (int64_t i = begin; i < end; i++) {
            tied_both += seen[ordered[i]]++;
            for (int64_t node = ordered[i] + 1; node <= n; node += node & -node)
                tree[node - 1]++;
        }
        for (int64_t i = begin; i < end; i++)
            seen[ordered[i]] = 0;
        tied_first += (end - begin) * (end - begin - 1) / 2;
    }
    counts[0] = discordant;
    counts[1] = tied_first;
    counts[2] = tied_second;
    counts[3] = tied_both;
}

static PyObject *
count_orders(PyObject *module, PyObject *arguments)
{
    Py_buffer first, second, counts;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(arguments, "y*y*nw*", &first, &second, &n, &counts))
        return NULL;
    PyObject *result = NULL;
    const int32_t *levels = first.buf, *others = second.buf;
    int64_t n_rows = counts.len / (4 * (Py_ssize_t)sizeof(int64_t));
    int valid = n > 0 && n < INT32_MAX && first.len == n_rows * n * (Py_ssize_t)sizeof(int32_t) &&
                second.len == first.len && counts.len == n_rows * 4 * (Py_ssize_t)sizeof(int64_t);
    for (int64_t i = 0; valid && i < n_rows * n; i++)
        valid = levels[i] >= 0 && levels[i] < n && others[i] >= 0 && others[i] < n;
    int32_t *room = NULL;
    if (!valid)
        PyErr_SetString(PyExc_ValueError, MISFIT);
    else if ((room = PyMem_Malloc((4 * n + 1) * sizeof(int32_t))) == NULL)
        PyErr_NoMemory();
    else {
        Py_BEGIN_ALLOW_THREADS
        for (int64_t row = 0; row < n_rows; row++)
            compare_orders(levels + row * n, others + row * n, n, room, room + n + 1, room + 2 * n + 1,
                           room + 3 * n + 1, (int64_t *)counts.buf + 4 * row);
        Py_END_ALLOW_THREADS
        PyMem_Free(room);
        result = Py_NewRef(Py_None);
    }
    Py_buffer *buffers[] = {&first, &second, &counts};
    for (int i = 0; i < 3; i++)
        PyBuffer_Release(buffers[i]);
    return result;
}

static PyMethodDef methods[] = {
    {"count_rows", count_rows, METH_VARARGS, "See kernels.row_counts."},
    {"count_columns", count_columns, METH_VARARGS, "See kernels.column_counts."},
    {"multiply_pairs", multiply_pairs, METH_VARARGS, "See kernels.pair_products."},
    {"count_matches", count_matches, METH_VARARGS, "See kernels.match_counts."},
    {"select_in_columns", select_in_columns, METH_VARARGS, "See kernels.guess_bounds."},
    {"reach_bounds", reach_bounds, METH_VARARGS, "See kernels.KeptColumns."},
    {"spread_kept", spread_kept, METH_VARARGS, "See kernels.KeptColumns."},
    {"scale_to_unit", scale_to_unit, METH_VARARGS, "See kernels.unit_vectors."},
    {"draw_times", draw_times, METH_VARARGS, "See kernels.times_drawn."},
    {"sum_drawn", sum_drawn, METH_VARARGS, "See kernels.drawn_sums."},
    {"find_ranks", find_ranks, METH_VARARGS, "See kernels.drawn_places."},
    {"draw_rows", draw_rows, METH_VARARGS, "See kernels.drawn_rows."},
    {"correlate_ranks", correlate_ranks, METH_VARARGS, "See kernels.rank_products."},
    {"count_orders", count_orders, METH_VARARGS, "See kernels.row_correlations."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "Counting scores that reach thresholds.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__kernels(void)
{
    return PyModuleDef_Init(&definition);
}
