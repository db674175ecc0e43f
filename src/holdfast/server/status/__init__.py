"""What the gateway reports about itself."""
