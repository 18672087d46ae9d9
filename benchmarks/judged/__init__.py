"""Scores what `findings` says of generated jobs whose truth is known.

    python -m benchmarks.judged [--seeds FROM-TO] [--jobs N] [--json FILE]

A seed draws a training job (`jobs.py`), and plants one cause or none (`causes.py`). The simulator of the tests runs it with and
without each loss; what a step then takes less is the loss's true saving. `score.py` compares this with the findings about
the traces that the job leaves.
"""
