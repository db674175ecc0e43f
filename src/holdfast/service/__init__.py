"""The life of the process: start, stop, reload, handover to a successor, and its supervisors."""
