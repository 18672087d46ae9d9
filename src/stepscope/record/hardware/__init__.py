"""What a job takes of its machine while it trains: of the host, and of the device that its model is on."""
