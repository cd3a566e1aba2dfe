"""Containers of ranks: `start --container IMAGE`. Ranks have the root directory of an image on their nodes.

flags    options of a start, and the job with its container

The part on nodes is `agent/containers.py`. The core has the value (`model/job.py`), and compares the images.
"""

JOB_OPTIONS = "pylaunch.features.containers.flags"
