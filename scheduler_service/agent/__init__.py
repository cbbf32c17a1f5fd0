"""What the devices of a machine are and do. Runs on each GPU node, or inside the service on one machine."""
