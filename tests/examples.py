"""How many examples tests try, by how much time there is: `make test-fast`, `make test`, `make test-long`."""

import os

from hypothesis import HealthCheck, settings

FEWEST = 5
_TIMES = float(os.environ.get("TEST_EXAMPLES", "0.5"))


def how_many(number: int) -> int:
    """As many as there is time for: half of `number` in `make test`, twenty times `number` in `make test-long`."""
    return max(FEWEST, round(number * _TIMES))


def examples(number: int) -> settings:
    """Decorates a property test that tries `how_many(number)` examples. There is no deadline and no haste: machines
    that run tests are busy.
    """
    return settings(
        max_examples=how_many(number),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
