"""The base class of the ``evaluate`` modules in ``metrics/``: checked batches, options, scores.

Without the checks ``evaluate`` would convert 1.7 to 1 and "12" to 12 in a column of whole numbers.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from filelock import FileLock
from numpy.typing import ArrayLike

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, UnknownName
from cxc_eccv.metrics.kinds import Spec
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.types import FloatArray
from cxc_eccv.types.strict_json import Json

LIST = "list of "
Parameters = Mapping[str, Any]
"""Parameters of one call of a metric, as a user gives them."""
Results = dict[str, Json]
Example = Mapping[str, Json | Mapping[int, Json]]
"""Columns or options."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a module: its check, which returns plain Python values, and their type in ``datasets``.

    A row holds one value for each entry of the column ``beside``, if that is named.
    """

    check: Callable[[str, Any], list[Any]]
    dtype: str
    description: str
    beside: str = ""


def check_batch(columns: Mapping[str, Column], batch: Mapping[str, object]) -> dict[str, list[Any]]:
    """A batch as plain Python lists of equal length."""
    for name in batch:
        if name not in columns:
            raise UnknownName("input", name, columns)
    missing = [name for name in columns if batch.get(name) is None]
    if missing:
        raise MalformedRun(f"{' and '.join(missing)} missing; this metric needs {', '.join(columns)}")
    sizes = {name: _size(name, batch[name]) for name in columns}
    checked = {name: column.check(name, batch[name]) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise MalformedRun(f"unequal lengths: {', '.join(f'{size} {name}' for name, size in sizes.items())}")
    if not all(sizes.values()):
        raise MalformedRun(f"nothing to score: {', '.join(columns)} are empty")
    for name, other in ((name, column.beside) for name, column in columns.items() if column.beside):
        for row, (values, entries) in enumerate(zip(checked[name], checked[other], strict=True)):
            if len(values) != len(entries):
                raise DataError(f"row {row} has {len(values)} {name} for {len(entries)} {other}; give one for each")
    return checked


def _size(name: str, values: Any) -> int:  # noqa: ANN401 - anything a user may give
    try:
        return len(values)
    except TypeError:
        raise MalformedRun(f"{name} is {values!r}; need a list with one entry per row") from None


def id_lists(name: str, values: Any) -> list[list[int]]:  # noqa: ANN401 - lists, arrays, tensors
    """One list of whole-number ids per query."""
    return [whole_ids(row, f"{name}, row {index}").tolist() for index, row in enumerate(values)]


def ids(name: str, values: ArrayLike) -> list[int]:
    """Whole-number ids, one per row."""
    checked: list[int] = whole_ids(values, name).tolist()
    return checked


def finite_numbers(name: str, values: ArrayLike) -> list[float]:
    """Finite real numbers, one per row."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # tensors of another device or type, rows of unequal length
        array = np.empty(0, dtype=object)
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise MalformedRun(f"{name} are not a flat list of numbers")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise MalformedRun(f"{name}, row {bad[0]} is {array[bad[0]]}; need finite numbers")
    checked: list[float] = array.astype(np.float64).tolist()
    return checked


def number_lists(name: str, values: Any) -> list[list[float]]:  # noqa: ANN401 - lists, arrays, tensors
    """One list of finite real numbers per query."""
    return [finite_numbers(f"{name}, row {index}", row) for index, row in enumerate(values)]


def names(name: str, values: Any) -> list[str]:  # noqa: ANN401 - checked here
    """Strings, one per row."""
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise MalformedRun(f"{name}, row {index} is {value!r}; need a string")
    return [str(value) for value in values]


OPTION_TEXTS: Mapping[str, str] = {
    "gallery_size": "number of items that a query ranks, one number or one per query. It shows which rankings are "
    "complete: any depth suffices for these, and positives they lack are outside the gallery.",
    "per_query": "also return the value of every query, as `<name>_per_query`.",
    "per_sample": "also return the correlation of every sample, as `<name>_samples`.",
}
"""What options of several kinds of modules mean."""


class MetricModule:
    """First base class of a module, before ``evaluate.Metric``; a subclass takes one kind of input.

    Options of ``compute`` may also be given to ``evaluate.load``, so that combined modules can have different ones. The
    first ``n_inputs`` arguments of the metric's function come from the columns; ``{}`` in ``result_texts`` stands for
    the metric's name.
    """

    spec: ClassVar[Spec]
    columns: ClassVar[Mapping[str, Column]]
    n_inputs: ClassVar[int] = 1
    shows_options: ClassVar[bool] = False  # whether the results hold the options too
    option_texts: ClassVar[Mapping[str, str]] = {}  # of options that are not in OPTIONS
    result_texts: ClassVar[Mapping[str, str]] = {}
    limits: ClassVar[str]
    example: ClassVar[Example]
    example_options: ClassVar[Example] = {}
    packages: ClassVar[tuple[str, ...]] = ()

    filelocks: list[FileLock] | None
    file_paths: list[str] | None

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - options and evaluate's own
        self._defaults = {name: settings.pop(name) for name in self.options() if name in settings}
        super().__init__(**settings)

    @classmethod
    def options(cls) -> dict[str, object]:
        """Options of ``compute`` with their defaults: those of the metric, then those of the module."""
        options = list(inspect.signature(cls.spec.function).parameters.values())[cls.n_inputs :]
        kind = inspect.signature(cls.scores).parameters.values()
        options += [option for option in kind if option.kind is option.KEYWORD_ONLY]
        return {option.name: option.default for option in options if option.name != "judged_only"}

    @classmethod
    def scores(cls, *columns: Any, **options: Any) -> Results:  # noqa: ANN401 - per kind
        """Name to value of the results, from the columns in their order."""
        raise NotImplementedError

    @classmethod
    def variants(cls, parameters: Mapping[str, object]) -> Iterator[Parameters]:
        """Every combination of parameters; those in the metric's name may be lists of values."""
        choices: list[list[object]] = []
        for name, value in parameters.items():
            if name in cls.spec.parameters and isinstance(value, list | tuple):
                if not value:
                    raise InvalidOption(f"{name} is an empty list; give at least one value")
                choices.append(list(value))
            else:
                choices.append([value])
        return (dict(zip(parameters, values, strict=True)) for values in itertools.product(*choices))

    @classmethod
    def label(cls, parameters: Parameters) -> str:
        """The name of the result, with the values of parameters in it."""
        shown = {name: value for name, value in parameters.items() if name in cls.spec.parameters}
        return cls.spec.label(**shown)

    @classmethod
    def report(
        cls, compute: Callable[..., FloatArray], parameters: Mapping[str, object], *, per_query: bool
    ) -> Results:
        """Name to value, for every combination of parameters."""
        results: Results = {}
        for chosen in cls.variants(parameters):
            results |= cls.name_values(chosen, compute(**chosen), per_query=per_query)
        return results

    @classmethod
    def name_values(cls, parameters: Parameters, values: FloatArray, *, per_query: bool) -> Results:
        """Name to the value of one call, and with ``per_query`` to the values of queries."""
        name = cls.label(parameters)
        results: Results = {name: cls.spec.average(values)}
        if per_query:
            results[f"{name}_per_query"] = values.tolist()
        return results

    def add_batch(self, *, predictions: Any = None, references: Any = None, **columns: Any) -> None:  # noqa: ANN401
        """Check and add a batch."""
        batch = check_batch(self.columns, {"predictions": predictions, "references": references, **columns})
        super().add_batch(**batch)  # type: ignore[misc] # of evaluate.Metric

    def add(self, *, prediction: Any = None, reference: Any = None, **columns: Any) -> None:  # noqa: ANN401
        """Check and add one row."""
        row = {"predictions": prediction, "references": reference, **columns}
        self.add_batch(**{name: None if value is None else [value] for name, value in row.items()})

    def compute(self, *, predictions: Any = None, references: Any = None, **others: Any) -> Results | None:  # noqa: ANN401
        """Compute the metric from these rows and those added before."""
        for name in others:
            if name not in self.columns and name not in self.options():
                raise UnknownName("option", name, self.options())
        others = dict.fromkeys(name for name in self.columns if name not in ("predictions", "references")) | others
        self.filelocks = None
        self.file_paths = None
        try:
            results: Results | None = super().compute(  # type: ignore[misc] # of evaluate.Metric
                predictions=predictions, references=references, **others
            )
            return results
        except Exception:
            self._release()
            raise

    def _release(self) -> None:
        """Release the files that ``evaluate`` keeps locked after an error; the next call would wait for them."""
        self.data = None
        for lock, path in zip(self.filelocks or (), self.file_paths or (), strict=True):
            Path(path).unlink(missing_ok=True)
            lock.release()

    def _finalize(self) -> None:
        if getattr(self, "writer", None) is None:
            raise MalformedRun("nothing to score: give predictions and references, or call add_batch first")
        super()._finalize()  # type: ignore[misc] # of evaluate.Metric

    def _compute(self, **arguments: Any) -> Results:  # noqa: ANN401 - columns and options
        columns = [list(arguments.pop(name)) for name in self.columns]
        options = {**self.options(), **self._defaults, **arguments}
        missing = [name for name, value in options.items() if value is inspect.Parameter.empty]
        if missing:
            raise InvalidOption(f"{self.spec.name} needs the option {' and '.join(missing)}")
        return self.scores(*columns, **options)
