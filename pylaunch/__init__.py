"""pylaunch: from N bare Linux machines to a training job whose ranks all started together."""

__version__ = "0.1.0"
