"""The smallest job: every rank prints its number and its host. Needs only Python."""

import os
import platform

rank, world_size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
print(f"rank {rank} of {world_size} on {platform.node()}, Python {platform.python_version()}", flush=True)
