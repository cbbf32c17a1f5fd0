"""Settings and the queue file: flag > ``KAI_*`` variable > ``kai.yaml`` > default; refused with a place."""
