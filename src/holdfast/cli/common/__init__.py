"""What several commands share: options, output, the connection to the gateway, offline reads."""
