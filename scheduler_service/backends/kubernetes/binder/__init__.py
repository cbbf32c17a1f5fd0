"""`kai binder`: carries out BindRequests, ours and KAI's; reservations, volumes, claims, sharing files, roll-back."""
