"""Release 5.x: the node versions from 5.0.0 to 5.2.0.

Against 4.x: nodes of trees are hashed with a separator, and so are the hashes of a checkpoint's blocks; headers of
checkpoints count fees; contract instances have a second version, with hashes in place of most public keys; the class
registry and fee juice stand at 1 and 3.
"""

from __future__ import annotations

from typing import Final

from fastnode.protocol.releases.release import Release, shipped_record

__all__ = ["FIVE"]

FIVE: Final = Release.from_record(shipped_record("5"))
