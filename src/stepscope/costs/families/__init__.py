"""The models of operators, one module for each family of work."""

from __future__ import annotations

from stepscope.costs.families import (
    attention,
    communication,
    convolution,
    copy,
    dropout,
    elementwise,
    embedding,
    extension,
    foreach,
    gemm,
    generated,
    indexing,
    loss,
    normalisation,
    optimizer,
    pooling,
    reduction,
    rnn,
    scan,
    softmax,
    view,
)
from stepscope.costs.work import Model

_FAMILIES = (
    gemm, convolution, attention, normalisation, softmax, loss, elementwise, foreach, reduction, scan, embedding,
    indexing, copy, pooling, dropout, rnn, optimizer, generated, communication, extension, view,
)  # fmt: skip
MODELS: tuple[Model, ...] = tuple(model for family in _FAMILIES for model in family.MODELS)
"""Every model, family by family."""
