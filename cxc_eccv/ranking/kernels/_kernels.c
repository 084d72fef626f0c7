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
#define WIDE 8
#else
#define FOR_EVERY_PROCESSOR
#define WIDE 4
#endif

#define LANES 16
#define PARTS (LANES / WIDE)
#define SUMS 8
#define ROWS_AT_ONCE 32
#define SEARCHED_AT_ONCE 64

/* Numbers side by side, at any address, as many as a processor compares at once. */
typedef float Floats __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));

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
        if (count_layer(scores + layer->column, stride, height, layer))
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
