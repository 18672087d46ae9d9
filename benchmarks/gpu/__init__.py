"""`make gpu`: what StepScope claims of GPUs, shown on one, within ten minutes and without a network.

`runner.py` runs the stages one after the other, each in a process of its own; `stages/` has them.
"""
