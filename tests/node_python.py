"""The Python of local and lab nodes: this machine's own, whichever one runs the tests."""

import subprocess

NODE_PYTHON = subprocess.run(
    ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], stdout=subprocess.PIPE, check=True
).stdout.decode().strip()  # fmt: skip
"""Major and minor version, as `env lock --python` takes them."""
