"""What only all ranks together show: which collectives are the same, how the ranks' clocks relate, who waited.

`gather.py` puts the collectives of all ranks into columns, `groups.py` finds the process group of each, `matching.py`
gives those that are the same one number (`order.py` if no sequence number decides), `clocks.py` aligns the clocks by
when matched ones ended, and `waits.py` says who arrived last. `alignment.py` runs them in turn.
"""
