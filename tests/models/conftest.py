"""Makes the documents that several test modules share importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported one by one, without their folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
