"""What people see while something runs: feeds, subscriptions, counters, snapshots."""
