"""The gateway: takes messages in, runs turns, and delivers the answers."""
