"""`python -m stepscope` is `stepscope`."""

from __future__ import annotations

import sys

from stepscope.cli.main import main

sys.exit(main())
