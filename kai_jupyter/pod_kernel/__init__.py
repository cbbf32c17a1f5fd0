"""A kernel in a pod of its own: what runs there (`__main__`), and what the Jupyter server knows of it (`process`)."""
