/*
 * How many scores of a block reach thresholds: one pass over the scores, where NumPy needs two comparisons and two sums.
 * What these functions count, and what counts in their place where they were not compiled, is in kernels.py.
 */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>

/* Where that is possible the loops are compiled three times, and the processor's own version is chosen on loading. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

#define TILE 16
#define LANES 8
#define COLUMNS_AT_ONCE (2 * TILE)
#define ROWS_AT_ONCE (16 * TILE)
#define SEARCHED_AT_ONCE (4 * TILE)

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

static void
keep_near(Near *near, int64_t pair, int64_t place, const float *scores, int64_t size, float low, float high)
{
    for (int64_t first = 0; first < size; first += SEARCHED_AT_ONCE) {
        int64_t stop = first + SEARCHED_AT_ONCE < size ? first + SEARCHED_AT_ONCE : size;
        if (!any_within(scores + first, stop - first, low, high))
            continue;
        for (int64_t i = first; i < stop; i++)
            if (scores[i] >= low && scores[i] <= high) {
                if (near->size < near->capacity) {
                    near->pairs[near->size] = pair;
                    near->places[near->size] = place + i;
                    near->scores[near->size] = scores[i];
                }
                near->size++;
            }
    }
}

/* Columns as rows, each "pitch" apart, so that the scores of one column stand side by side. */
FOR_EVERY_PROCESSOR static void
transpose(const float *restrict scores, int64_t stride, int64_t height, int64_t width, float *restrict columns,
          int64_t pitch)
{
    for (int64_t row = 0; row < height; row += TILE)
        for (int64_t column = 0; column < width; column += TILE)
            if (row + TILE <= height && column + TILE <= width) {
                float tile[TILE][TILE];
                for (int i = 0; i < TILE; i++)
                    for (int j = 0; j < TILE; j++)
                        tile[i][j] = scores[(row + i) * stride + column + j];
                for (int j = 0; j < TILE; j++)
                    for (int i = 0; i < TILE; i++)
                        columns[(column + j) * pitch + row + i] = tile[i][j];
            } else
                for (int64_t i = row; i < height && i < row + TILE; i++)
                    for (int64_t j = column; j < width && j < column + TILE; j++)
                        columns[j * pitch + i] = scores[i * stride + j];
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

static int
all_within(const int64_t *places, int64_t count, int64_t last)
{
    for (int64_t i = 0; i < count; i++)
        if (places[i] < 0 || places[i] > last)
            return 0;
    return 1;
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
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other, or a place lies outside the scores");
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
            count_scores(scores, size, task.low[pair], task.high[pair], at_least, above);
            if (task.low[pair] < task.high[pair] && *at_least > *above)
                keep_near(&task.near, pair, first, scores, size, task.low[pair], task.high[pair]);
        }
    Py_END_ALLOW_THREADS
    release(&task);
    return PyLong_FromLongLong(task.near.size);
}

/* Counts rows "row" to "stop", which are of one segment, at most ROWS_AT_ONCE at a time. */
static void
count_segment(Task *task, int64_t row, int64_t stop, int64_t *at_least, int64_t *above)
{
    float own[COLUMNS_AT_ONCE * ROWS_AT_ONCE];
    for (; row < stop; row += ROWS_AT_ONCE) {
        int64_t height = stop - row < ROWS_AT_ONCE ? stop - row : ROWS_AT_ONCE;
        for (int64_t pair = 0; pair < task->n_pairs;) {
            int64_t first = task->place[pair], last = first + COLUMNS_AT_ONCE;
            last = last < task->width ? last : task->width;
            transpose(task->scores + row * task->stride + first, task->stride, height, last - first, own,
                      ROWS_AT_ONCE);
            for (; pair < task->n_pairs && task->place[pair] >= first && task->place[pair] < last; pair++) {
                const float *scores = own + (task->place[pair] - first) * ROWS_AT_ONCE;
                int64_t at_least_low = 0, above_high = 0;
                count_scores(scores, height, task->low[pair], task->high[pair], &at_least_low, &above_high);
                if (task->low[pair] < task->high[pair] && at_least_low > above_high)
                    keep_near(&task->near, pair, row, scores, height, task->low[pair], task->high[pair]);
                at_least[pair] += at_least_low;
                above[pair] += above_high;
            }
        }
    }
}

static PyObject *
count_columns(PyObject *module, PyObject *arguments)
{
    Task task;
    if (!open_task(arguments, &task, 0))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t segment = 0; segment < task.n_segments; segment++) {
        int64_t counts = segment * task.n_pairs;
        count_segment(&task, task.bounds[segment], task.bounds[segment + 1], &task.at_least[counts],
                      &task.above[counts]);
    }
    Py_END_ALLOW_THREADS
    release(&task);
    return PyLong_FromLongLong(task.near.size);
}

/* The sum of products of two vectors, and of their absolute values, in double precision. */
FOR_EVERY_PROCESSOR static void
multiply(const float *restrict one, const float *restrict other, int64_t size, double *sum, double *magnitude)
{
    double sums[LANES] = {0}, magnitudes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            double product = (double)one[i + lane] * (double)other[i + lane];
            sums[lane] += product;
            magnitudes[lane] += fabs(product);
        }
    for (; i < size; i++) {
        sums[0] += (double)one[i] * (double)other[i];
        magnitudes[0] += fabs((double)one[i] * (double)other[i]);
    }
    for (int lane = 1; lane < LANES; lane++) {
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

static PyMethodDef methods[] = {
    {"count_rows", count_rows, METH_VARARGS, "See kernels.row_counts."},
    {"count_columns", count_columns, METH_VARARGS, "See kernels.column_counts."},
    {"multiply_pairs", multiply_pairs, METH_VARARGS, "See kernels.pair_products."},
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
