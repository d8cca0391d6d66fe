"""Measurements of speed, quality and memory. `python -m benchmarks` runs all and writes one table."""
