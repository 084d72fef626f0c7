"""The base class of the ``evaluate`` modules in ``metrics/``: checked batches, options, scores."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock

from cxc_eccv.adapters.inputs import Column, check_batch
from cxc_eccv.errors import InvalidOption, MalformedRun, UnknownName
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray

PER_QUERY = "also return the value of every query, as `<name>_per_query`."


class MetricModule:
    """First base class of a module, before ``evaluate.Metric``; a subclass takes one kind of input.

    Options of ``compute`` may also be given to ``evaluate.load``, so that combined modules can have different ones. The
    first ``n_inputs`` arguments of the metric's function come from the columns; ``{}`` in ``result_texts`` stands for
    the metric's name.
    """

    spec: ClassVar[Spec]
    parts: ClassVar[Mapping[str, tuple[Spec, Mapping[str, Any]]]]
    columns: ClassVar[Mapping[str, Column]]
    n_inputs: ClassVar[int] = 1
    option_texts: ClassVar[Mapping[str, str]] = {}
    result_texts: ClassVar[Mapping[str, str]] = {}
    limits: ClassVar[str]
    example: ClassVar[Mapping[str, list[Any]]]
    example_options: ClassVar[Mapping[str, Any]] = {}
    packages: ClassVar[tuple[str, ...]] = ()

    filelocks: list[FileLock] | None
    file_paths: list[str] | None

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - options and evaluate's own
        self._defaults = {name: settings.pop(name) for name in self.options() if name in settings}
        super().__init__(**settings)

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Options of ``compute`` with their defaults: those of the metric, then those of the module."""
        options = list(inspect.signature(cls.spec.function).parameters.values())[cls.n_inputs :]
        kind = inspect.signature(cls.scores).parameters.values()
        options += [option for option in kind if option.kind is option.KEYWORD_ONLY]
        return {option.name: option.default for option in options}

    @classmethod
    def scores(cls, inputs: Mapping[str, list[Any]], **options: Any) -> dict[str, Any]:  # noqa: ANN401 - per kind
        """Name to value of the results."""
        raise NotImplementedError

    def add_batch(self, *, predictions: Any = None, references: Any = None, **columns: Any) -> None:  # noqa: ANN401
        """Check and add a batch."""
        batch = check_batch(self.columns, {"predictions": predictions, "references": references, **columns})
        super().add_batch(**batch)  # type: ignore[misc] # of evaluate.Metric

    def add(self, *, prediction: Any = None, reference: Any = None, **columns: Any) -> None:  # noqa: ANN401
        """Check and add one row."""
        row = {"predictions": prediction, "references": reference, **columns}
        self.add_batch(**{name: None if value is None else [value] for name, value in row.items()})

    def compute(self, *, predictions: Any = None, references: Any = None, **others: Any) -> dict[str, Any] | None:  # noqa: ANN401
        """Compute the metric from these rows and those added before."""
        for name in others:
            if name not in self.columns and name not in self.options():
                raise UnknownName("option", name, self.options())
        others = dict.fromkeys(name for name in self.columns if name not in ("predictions", "references")) | others
        self.filelocks, self.file_paths = None, None
        try:
            results: dict[str, Any] | None = super().compute(  # type: ignore[misc] # of evaluate.Metric
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

    def _compute(self, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - columns and options
        inputs = {name: list(arguments.pop(name)) for name in self.columns}
        options = {**self.options(), **self._defaults, **arguments}
        missing = [name for name, value in options.items() if value is inspect.Parameter.empty]
        if missing:
            raise InvalidOption(f"{self.spec.name} needs the option {' and '.join(missing)}")
        return self.scores(inputs, **options)


def variants(spec: Spec, parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of parameters; those in the metric's name may be lists of values."""
    choices = []
    for name, value in parameters.items():
        choices.append(list(value) if name in spec.parameters and isinstance(value, list | tuple) else [value])
        if not choices[-1]:
            raise InvalidOption(f"{name} is an empty list; give at least one value")
    return (dict(zip(parameters, values, strict=True)) for values in itertools.product(*choices))


def label(spec: Spec, parameters: Mapping[str, Any]) -> str:
    """The name of the result, with the values of parameters in it."""
    return spec.label(**{name: value for name, value in parameters.items() if name in spec.parameters})


def results_of(spec: Spec, name: str, values: FloatArray, *, per_query: bool) -> dict[str, Any]:
    """A result, and with ``per_query`` its values."""
    return {name: spec.average(values)} | ({f"{name}_per_query": values.tolist()} if per_query else {})
