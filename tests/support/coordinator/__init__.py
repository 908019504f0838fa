"""What group and transaction coordinators lean on, faked."""
