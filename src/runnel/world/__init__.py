"""What comes from outside: time, luck, tasks, telemetry, objects, and a simulated version of all of it."""
