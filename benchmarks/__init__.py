"""What Clew costs, measured: run `python -m benchmarks`, read `benchmarks/RESULTS.md`."""
