"""Operations: status, statistics, traces, backups."""
