"""What `holdfast doctor` looks at: one file a matter, and one list of them all."""
