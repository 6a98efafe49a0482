"""From accepted batches to acknowledged offsets.

ticket   a request's batches, and the answers that come back
window   when a gathering of batches becomes an object (pure)
gather   requests into windows, within a bound of bytes under way
flush    a closed window becomes one object and one entry per shard, in order
"""
