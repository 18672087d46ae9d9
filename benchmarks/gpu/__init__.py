"""`make gpu`: verifies StepScope's claims about GPUs on one, within ten minutes and without a network.

`runner.py` runs the stages one after the other, each in its own process; `stages/` contains them.
"""
