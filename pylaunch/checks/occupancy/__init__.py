"""Holders of devices and ports: runs, leftover processes and other users. For `gpus` and `clean`."""
