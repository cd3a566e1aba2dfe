"""`python -m lab drill`: inject faults into real runs, and score what pylaunch says about each."""
