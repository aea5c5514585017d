"""Makes the helpers of this folder, of the intrinsics and of refusals importable by its tests."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "intrinsics"), str(FOLDER.parent / "errors")]
