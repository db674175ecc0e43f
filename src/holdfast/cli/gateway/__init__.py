"""`holdfast gateway` and `holdfast run`: the process and the service that keeps it running."""
