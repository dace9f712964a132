"""What benchmarks share lies beside them, and is imported by its bare name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
