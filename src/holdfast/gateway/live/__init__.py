"""What people see while a turn runs: feeds, subscriptions, counters, snapshots."""
