"""The truth and how it changes: one ledger and one pure state machine per shard."""
