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

MODELS: tuple[Model, ...] = (
    *gemm.MODELS,
    *convolution.MODELS,
    *attention.MODELS,
    *normalisation.MODELS,
    *softmax.MODELS,
    *loss.MODELS,
    *elementwise.MODELS,
    *foreach.MODELS,
    *reduction.MODELS,
    *scan.MODELS,
    *embedding.MODELS,
    *indexing.MODELS,
    *copy.MODELS,
    *pooling.MODELS,
    *dropout.MODELS,
    *rnn.MODELS,
    *optimizer.MODELS,
    *generated.MODELS,
    *communication.MODELS,
    *extension.MODELS,
    *view.MODELS,
)
"""Every model, family by family."""
