"""Noticing that a job trains another model than the one whose forward is listened to."""

from __future__ import annotations

_PATIENCE = 2
_LESS_OFTEN = 4


class UnheardForward:
    """Asked every few steps whether the model should be looked for again.

    Steps are unheard when they run a backward and no forward. Many of those in a row are another
    model's: the next fold's, or the one that is tuned after it has been trained. A look costs the
    hooks on all modules for one step, so each makes the next one come later.
    """

    def __init__(self) -> None:
        self._patience = _PATIENCE
        self._unheard = 0
        self._forwards = 0
        self._backwards = 0

    def look_again(self, forwards: int, backwards: int) -> bool:
        """Whether to look for the model in the next step.

        Args:
            forwards: how many were heard, in all steps.
            backwards: how many were heard, in all steps.
        """
        if forwards != self._forwards or not forwards:
            self._unheard = 0
        elif backwards != self._backwards:
            self._unheard += 1
        self._forwards, self._backwards = forwards, backwards
        if self._unheard < self._patience:
            return False
        self._unheard = 0
        self._patience *= _LESS_OFTEN
        return True
