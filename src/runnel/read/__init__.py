"""From an offset to bytes.

plan    which parts of which objects hold what was asked for (pure)
rows    chunks of Parquet files, turned back into sealed batches
fetch   ranged reads, shared by all who want the same part, and reads ahead
reader  the read itself: plan, fetch, offsets patched into the copy; time lookups; waiting
"""
