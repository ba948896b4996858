"""The benchmark: Rowlock against plain SQL on the same server, as ratios within one run."""
