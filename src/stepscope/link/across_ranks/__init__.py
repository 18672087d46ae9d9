"""What only all ranks together tell: which collectives of theirs are one, how their clocks relate, who waited.

`gather.py` puts the collectives of all ranks into columns, `groups.py` says which process group each is of,
`matching.py` numbers those that are one (`order.py` where no sequence number tells), `clocks.py` learns the ranks' clocks
from when matched ones ended, and `waits.py` says who arrived last. `alignment.py` runs them in turn.
"""
