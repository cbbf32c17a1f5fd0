"""Where plans are carried out. Each backend keeps the contract of `ports.Backend`; they do not know each other."""
