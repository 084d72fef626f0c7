"""From several people's answers to one label: majority, unanimity, or weighted by how reliable each of them is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from cxc_eccv.errors import DataError
from cxc_eccv.types import FloatArray

__all__ = ["Consensus", "estimate_truth"]

PATIENCE = 1_000
TOLERANCE = 1e-9
RIGHT, WRONG = 1.0, 0.01
"""Answers that every worker is given to begin with, for each class: what never happened is not impossible, and a worker
of whom little is known is believed."""


@dataclass(frozen=True, slots=True, eq=False)
class Consensus:
    """What the model of Dawid and Skene makes of answers."""

    probabilities: FloatArray  # (N, C) of each class, for every item
    confusion: FloatArray  # (W, C, C) chance that a worker answers a column where the class of the row is true
    prior: FloatArray  # (C,) shares of the classes

    @property
    def quality(self) -> FloatArray:
        """(W,) chance that a worker's answer is right."""
        return np.asarray(np.einsum("wcc,c->w", self.confusion, self.prior))


def estimate_truth(items: ArrayLike, workers: ArrayLike, answers: ArrayLike, n_classes: int) -> Consensus:
    r"""The likeliest truth behind answers, and how reliable each worker is, found together.

    Every item has one true class, drawn with shares :math:`p_c`; worker w answers k with chance :math:`\pi^w_{ck}`.
    Expectation maximisation, from the shares of each item's answers: classes from the tables of the workers, the
    tables from the classes, until nothing moves.

    Args:
        items: (A,) item of each answer, from 0; each has one at least.
        workers: (A,) who gave it, from 0; each has one answer at least, and one about an item at most.
        answers: (A,) class from 0.
        n_classes: how many there are.

    References:
        Dawid and Skene, Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm, 1979.
    """
    item, worker, answer = (np.asarray(values) for values in (items, workers, answers))
    n_items, n_workers = int(item.max()) + 1, int(worker.max()) + 1
    truth = np.zeros((n_items, n_classes))
    np.add.at(truth, (item, answer), 1)
    truth /= truth.sum(axis=1, keepdims=True)
    # A row for each item, a column for each answer of each worker: both steps are a product with it.
    columns = worker * n_classes + answer
    given = csr_array((np.ones(item.size), (item, columns)), shape=(n_items, n_workers * n_classes))
    start = np.tile(np.where(np.eye(n_classes), RIGHT, WRONG), (n_workers, 1, 1))
    for _ in range(PATIENCE):
        prior = truth.mean(axis=0)
        tables = start + (given.T @ truth).reshape(n_workers, n_classes, n_classes).transpose(0, 2, 1)
        confusion = tables / tables.sum(axis=2, keepdims=True)
        logs = given @ np.log(confusion).transpose(0, 2, 1).reshape(-1, n_classes)
        logs += np.log(prior + np.finfo(float).tiny)
        again = np.exp(logs - logs.max(axis=1, keepdims=True))
        again /= again.sum(axis=1, keepdims=True)
        moved = np.abs(again - truth).max()
        truth = again
        if moved < TOLERANCE:
            break
    else:
        raise DataError(
            f"Dawid and Skene's model has not settled after {PATIENCE:,} steps; settle by majority, or ask more people"
        )
    return Consensus(truth, confusion, prior)
