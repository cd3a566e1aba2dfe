"""Readers of devices: GPUs and network adapters."""
